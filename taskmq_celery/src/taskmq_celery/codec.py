"""Kombu's serializers as codecs of the engine.

``kombu-json`` is the one in normal use: datetimes, UUIDs, decimals and whatever else an
application registered with kombu survive as they do in Celery. Another serializer that kombu knows
can be used where the app accepts it (``accept_content``); nothing is unpickled otherwise.
"""

from __future__ import annotations

import json
from typing import Any

from kombu.exceptions import ContentDisallowed
from kombu.serialization import registry
from kombu.utils import json as kombu_json

__all__ = ["PREFIX", "JsonCodec", "KombuCodec", "codec_name"]

PREFIX = "kombu-"

# Made once: `json.dumps(cls=…)` makes one for every call, which costs more than the encoding.
_encode = kombu_json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_encode_ascii = kombu_json.JSONEncoder(separators=(",", ":")).encode
_decode_plain = json.JSONDecoder().decode
_TAG = '"__type__"'
_WRAP = '{"__json_text__":'


def codec_name(serializer: str) -> str:
    """The codec's name for a serializer of kombu's."""
    return PREFIX + serializer


class JsonCodec:
    """Kombu's ``json``, made to fit into strict JSON.

    Python writes and reads what strict JSON does not have: NaN, infinity, half of a surrogate
    pair (as in file names that are no UTF-8). Text with such values is wrapped up as one string.
    """

    name = codec_name("json")
    is_json = True

    def encode(self, value: Any) -> bytes:
        text = _encode(value)
        if "NaN" in text or "Infinity" in text or text.startswith(_WRAP):
            return _wrapped(value)
        try:
            return text.encode()
        except UnicodeEncodeError:
            return _wrapped(value)

    def decode(self, data: bytes) -> Any:
        text = data.decode()
        if text.startswith(_WRAP):
            text = _decode_plain(text)["__json_text__"]
        if _TAG in text:  # a type that JSON does not have
            return kombu_json.loads(text)
        return _decode_plain(text)


def _wrapped(value: Any) -> bytes:
    return f"{_WRAP}{json.dumps(_encode_ascii(value))}}}".encode()


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
        _, _, data = registry.dumps(value, serializer=self._serializer)
        return data.encode() if isinstance(data, str) else bytes(data)

    def decode(self, data: bytes) -> Any:
        content_type = registry.name_to_type.get(self._serializer, self._serializer)
        if self._serializer not in self._accept and content_type not in self._accept:
            raise ContentDisallowed(
                f"Refusing to deserialize untrusted content of type {self._serializer} "
                f"({content_type})"
            )
        encoding = registry._encoders[self._serializer].content_encoding  # kombu has no other way
        return registry.loads(data, content_type, encoding, accept={content_type})
