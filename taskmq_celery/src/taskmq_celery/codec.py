"""Kombu's serializers as codecs of the engine.

``kombu-json`` is the one in normal use: datetimes, UUIDs, decimals and whatever else an
application registered with kombu survive as they do in Celery. Another serializer that kombu knows
can be used where the app accepts it (``accept_content``); nothing is unpickled otherwise.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import msgspec
from kombu.exceptions import ContentDisallowed
from kombu.serialization import registry
from kombu.utils import json as kombu_json

from taskmq.codec import FINITE

__all__ = ["PREFIX", "JsonCodec", "Kept", "KombuCodec", "codec_name"]

PREFIX = "kombu-"

# Made once: `json.dumps(cls=…)` makes one for every call, which costs more than the encoding.
_encode = kombu_json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_encode_ascii = kombu_json.JSONEncoder(separators=(",", ":")).encode
_encode_plain = msgspec.json.Encoder().encode  # the same bytes, in a fifth of the time
_decode_quickly = msgspec.json.Decoder().decode
_decode_plain = json.JSONDecoder().decode
_TAG = '"__type__"'
_WRAP = '{"__json_text__":'
_KEPT, _VALUE = '{"__children__":', ',"__value__":'
_decode_start = json.JSONDecoder().raw_decode


def codec_name(serializer: str) -> str:
    """The codec's name for a serializer of kombu's."""
    return PREFIX + serializer


class Kept(NamedTuple):
    """A result with the results of what the task has called, as tuples. Whoever decodes it gets
    the value alone, unless they ask for both."""

    value: Any
    children: list[Any]


class JsonCodec:
    """Kombu's ``json``, made to fit into strict JSON.

    Python writes and reads what strict JSON does not have: NaN, infinity, half of a surrogate
    pair (as in file names that are no UTF-8). Text with such values is wrapped up as one string.
    """

    name = codec_name("json")
    is_json = True

    def encode(self, value: Any) -> bytes:
        if type(value) is Kept:
            head = _KEPT + _encode_ascii(value.children) + _VALUE
            return head.encode() + self.encode(value.value) + b"}"
        kind = type(value)
        if kind is dict and not value:
            return b"{}"  # most calls have no keywords
        if (kind is tuple or kind is list) and FINITE.issuperset(map(type, value)):
            try:
                return _encode_plain(value)
            except ValueError:  # half of a surrogate pair
                return _wrapped(value)
        text = _encode(value)
        if "NaN" in text or "Infinity" in text or text.startswith((_WRAP, _KEPT)):
            return _wrapped(value)
        try:
            return text.encode()
        except UnicodeEncodeError:
            return _wrapped(value)

    def decode(self, data: bytes) -> Any:
        return self.decode_kept(data).value

    def decode_kept(self, data: bytes) -> Kept:
        """The value, and what was kept with it."""
        text = data.decode()
        children: list[Any] = []
        if text.startswith(_KEPT):
            children, end = _decode_start(text, len(_KEPT))
            text = text[end + len(_VALUE) : -1]
        if text.startswith(_WRAP):
            text = _decode_plain(text)["__json_text__"]
        if _TAG in text:  # a type that JSON does not have
            return Kept(kombu_json.loads(text), children)
        try:
            return Kept(_decode_quickly(text), children)
        except ValueError:  # of what Python reads and JSON does not have, or of a number too large
            return Kept(_decode_plain(text), children)


def _wrapped(value: Any) -> bytes:
    return f"{_WRAP}{json.dumps(_encode_ascii(value))}}}".encode()


CHILDREN, VALUE = "__taskmq_children__", "__taskmq_value__"


class KombuCodec:
    """Any other serializer by its kombu name, e.g. ``pickle``, ``yaml``, ``msgpack``.

    ``accept`` are the serializers and content types that may be read (``accept_content``).
    """

    is_json = False

    def __init__(self, serializer: str, accept: tuple[str, ...]) -> None:
        self.name = codec_name(serializer)
        self._serializer = serializer
        self._accept = accept

    def encode(self, value: Any) -> bytes:
        if type(value) is Kept:
            value = {CHILDREN: value.children, VALUE: value.value}
        _, _, data = registry.dumps(value, serializer=self._serializer)
        return data.encode() if isinstance(data, str) else bytes(data)

    def decode(self, data: bytes) -> Any:
        return self.decode_kept(data).value

    def decode_kept(self, data: bytes) -> Kept:
        """The value, and what was kept with it."""
        content_type = registry.name_to_type.get(self._serializer, self._serializer)
        if self._serializer not in self._accept and content_type not in self._accept:
            raise ContentDisallowed(
                f"Refusing to deserialize untrusted content of type {self._serializer} "
                f"({content_type})"
            )
        encoding = registry._encoders[self._serializer].content_encoding  # kombu has no other way
        value = registry.loads(data, content_type, encoding, accept={content_type})
        if type(value) is dict and value.keys() == {CHILDREN, VALUE}:
            return Kept(value[VALUE], value[CHILDREN])
        return Kept(value, [])
