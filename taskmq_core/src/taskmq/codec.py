"""Values to bytes and back, without ever running what the bytes name.

Both built-in serializers write plain JSON, so a producer on one and a worker on the other
understand each other: ``msgspec`` is fast and knows datetimes, UUIDs, decimals, bytes, sets,
enums, dataclasses and structs; ``json`` is the standard library alone. A type that neither knows
is registered with an encode and a decode function; such payloads carry the wire name
``json+types`` and tag each value. Other wire names belong to codecs that an application registers.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, Protocol

import msgspec

from .errors import ConfigError, DecodeError, EncodeError
from .references import OFFLOADED

__all__ = [
    "BUILT_IN",
    "FINITE",
    "JSON",
    "NO_PAYLOAD_STORE",
    "SKIPPED",
    "Codec",
    "CodecRegistry",
    "Payload",
    "refuse_non_finite",
]

JSON, TAGGED = "json", "json+types"
BUILT_IN = frozenset({JSON, TAGGED})
NO_PAYLOAD_STORE = "its bytes are in a payload store, and this app has none: set payload_store"
SKIPPED = "skipped"
"""The wire name, in place of a codec's, of the result of a job that did not have to run."""
FINITE = frozenset({str, int, bool, type(None)})
"""Types that have no value which JSON cannot write."""
TAG, VALUE, PLAIN_DICT = "$type", "value", "$dict"


class Payload(msgspec.Struct, frozen=True, gc=False):
    """Encoded bytes and the wire name of the codec that reads them."""

    codec: str
    data: bytes


class Codec(Protocol):
    """Turns a value into bytes and back.

    ``name`` is its wire name. ``is_json`` says that its bytes are JSON text, which an envelope
    embeds as it is; other bytes are embedded as base64. Both methods may raise any exception;
    the registry translates it.
    """

    name: str
    is_json: bool

    def encode(self, value: Any) -> bytes: ...
    def decode(self, data: bytes) -> Any: ...


class CodecRegistry:
    """The codecs and own types that one app knows. Not global: each app has its own."""

    def __init__(
        self,
        serializer: Literal["msgspec", "json"] = "msgspec",
        discover: Callable[[str], Codec | None] | None = None,
    ) -> None:
        """``discover`` finds a codec that a task or a call names and nobody registered."""
        self.fetch: Callable[[Payload], Payload] | None = None
        """Gets what a reference stands for out of the payload store, where there is one."""
        self._discover = discover
        self._types: dict[type, tuple[str, Callable[[Any], Any]]] = {}
        self._decoders: dict[str, Callable[[Any], Any]] = {}
        self._codecs: dict[str, Codec] = {}
        if serializer == "json":
            self._plain: Callable[[Any], bytes] = partial(_dump, default=self._no_plain_form)
            self._tagged: Callable[[Any], bytes] = partial(_dump, default=self._tag)
            self._load: Callable[[bytes], Any] = json.loads
            self._lines: Callable[[Sequence[Any]], bytes] | None = None
        else:
            plain = msgspec.json.Encoder(enc_hook=self._no_plain_form)
            self._plain, self._lines = plain.encode, plain.encode_lines
            self._tagged = msgspec.json.Encoder(enc_hook=self._tag).encode
            self._load = msgspec.json.Decoder().decode

    def register(self, codec: Codec) -> None:
        """Make ``codec`` readable (and writable, where a task or call names it)."""
        if codec.name in (*BUILT_IN, OFFLOADED, SKIPPED) or codec.name in self._codecs:
            raise ConfigError(f"codec {codec.name!r} is registered already")
        self._codecs[codec.name] = codec

    def want(self, name: str) -> None:
        """See to it that a codec which the program itself names is there. Raises `ConfigError`.

        A name in a message never gets this far: whoever can write to the store must not choose
        what is imported here.
        """
        if name not in BUILT_IN:
            self._find(name)

    def _find(self, name: str) -> Codec:
        if name in self._codecs:
            return self._codecs[name]
        found = None if self._discover is None else self._discover(name)
        if found is None:
            raise ConfigError(f"codec {name!r} is not registered in this app")
        if found.name != name:
            raise ConfigError(f"the codec for {name!r} calls itself {found.name!r}")
        self.register(found)
        return found

    def register_type(
        self,
        kind: type,
        *,
        encode: Callable[[Any], Any],
        decode: Callable[[Any], Any],
        name: str | None = None,
    ) -> None:
        """Let values of ``kind`` travel. ``encode`` gives something JSON can hold, ``decode``
        takes it back. ``name`` is the tag on the wire (default: the class's name)."""
        name = name or kind.__name__
        if name in self._decoders or name == PLAIN_DICT:
            raise ConfigError(f"a type named {name!r} is registered already; pass another name=")
        self._types[kind] = (name, encode)
        self._decoders[name] = decode

    def is_json(self, codec: str) -> bool:
        """Whether payloads of that wire name are JSON text. Raises `DecodeError` if unknown."""
        return codec in BUILT_IN or self._custom(codec).is_json

    def encode(self, value: Any, codec: str | None = None) -> Payload:
        """Encode with the app's serializer, or with the named codec. Raises `EncodeError`."""
        name, (data,) = self.encode_many((value,), codec)
        return Payload(name, data)

    def encode_many(
        self, values: tuple[Any, ...], codec: str | None = None
    ) -> tuple[str, list[bytes]]:
        """Encode several values under one wire name. Raises `EncodeError`.

        A built-in ``codec`` is the same as none: whether tags are needed decides between them.
        """
        try:
            if codec is not None and codec not in BUILT_IN and codec != OFFLOADED:
                custom = self._find(codec)
                return codec, [_encode_custom(custom, value) for value in values]
            return self._encode_json(values)
        except EncodeError:
            raise
        except (ConfigError, DecodeError) as error:
            raise EncodeError(str(error)) from None
        except Exception as error:
            raise EncodeError(f"cannot encode: {error}") from error

    def encode_plain(self, values: Sequence[Any]) -> list[bytes] | None:
        """Many values as plain JSON, by one call of the encoder. ``None`` if one of them needs
        more than that, or cannot be encoded: `encode_many` takes each, or says what is wrong."""
        if self._lines is None or self._types:
            return None
        try:
            lines = self._lines(values).split(b"\n")[:-1]
            if len(lines) != len(values):  # one that was encoded already, with line breaks
                return None
            for value, data in zip(values, lines, strict=True):
                if b"null" in data:
                    refuse_non_finite(value)
        except Exception:
            return None
        return lines

    def decode(self, payload: Payload) -> Any:
        """The value of a payload. Raises `DecodeError`, whatever the bytes are; for a reference
        also what `taskmq.payloads.Offload.fetch_result` does."""
        if payload.codec == SKIPPED:
            return None
        if payload.codec == OFFLOADED:
            if self.fetch is None:
                raise DecodeError(NO_PAYLOAD_STORE)
            payload = self.fetch(payload)
        try:
            if payload.codec == JSON:
                return self._load(payload.data)
            if payload.codec == TAGGED:
                return self._untag(self._load(payload.data))
            return self._custom(payload.codec).decode(payload.data)
        except DecodeError:
            raise
        except Exception as error:
            raise DecodeError(
                f"codec {payload.codec!r} cannot read the payload: {error}"
            ) from error

    def load_json(self, data: bytes) -> Any:
        """The value of untagged JSON, which is what nearly every job has. Raises `DecodeError`."""
        try:
            return self._load(data)
        except Exception as error:
            raise DecodeError(f"codec {JSON!r} cannot read the payload: {error}") from error

    def _custom(self, name: str) -> Codec:
        try:
            return self._codecs[name]
        except KeyError:
            raise DecodeError(f"codec {name!r} is not registered in this app") from None

    def _encode_json(self, values: tuple[Any, ...]) -> tuple[str, list[bytes]]:
        """Plain JSON if nothing needs a tag (the fast path, one pass), else the tagged form."""
        try:
            if self._types and any(self._needs_tag(value) for value in values):
                raise _NeedsTag
            name, encoded = JSON, list(map(self._plain, values))
        except _NeedsTag:
            name, encoded = TAGGED, [self._tagged(self._escape(value)) for value in values]
        for value, data in zip(values, encoded, strict=True):
            if b"null" in data:  # what msgspec writes for NaN: refuse rather than change a value
                refuse_non_finite(value)
        return name, encoded

    def _no_plain_form(self, value: Any) -> Any:
        if type(value) in self._types:
            raise _NeedsTag  # it sits inside of a dataclass or struct, where nobody looked before
        return self._tag(value)

    def _needs_tag(self, value: Any) -> bool:
        if type(value) in self._types:
            return True
        if isinstance(value, dict):
            return any(self._needs_tag(item) for item in value.values())
        if isinstance(value, (list, tuple, set, frozenset)):
            return any(self._needs_tag(item) for item in value)
        return False

    def _escape(self, value: Any) -> Any:
        """Tag own types; wrap dicts of the user that look like a tag."""
        if type(value) in self._types:
            return self._tag(value)
        if isinstance(value, dict):
            escaped = {key: self._escape(item) for key, item in value.items()}
            return {TAG: PLAIN_DICT, VALUE: list(escaped.items())} if TAG in value else escaped
        if isinstance(value, (list, tuple, set, frozenset)):
            return [self._escape(item) for item in value]
        return value

    def _tag(self, value: Any) -> dict[str, Any]:
        try:
            name, encode = self._types[type(value)]
        except KeyError:
            kind = f"{type(value).__module__}.{type(value).__qualname__}"
            raise EncodeError(
                f"cannot encode a {kind}; register it with app.register_codec"
            ) from None
        return {TAG: name, VALUE: self._escape(encode(value))}

    def _untag(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._untag(item) for item in value]
        if not isinstance(value, dict):
            return value
        if TAG not in value:
            return {key: self._untag(item) for key, item in value.items()}
        name, inner = value[TAG], self._untag(value[VALUE])
        if name == PLAIN_DICT:
            return dict(inner)
        if name not in self._decoders:
            raise DecodeError(f"type {name!r} is not registered in this app")
        return self._decoders[name](inner)


def _encode_custom(codec: Codec, value: Any) -> bytes:
    data = codec.encode(value)
    if codec.is_json:
        msgspec.json.decode(data.decode(), type=msgspec.Raw)  # or no envelope could hold it
    return data


class _NeedsTag(Exception):
    """A value cannot be written as plain JSON, but with tags."""


def _dump(value: Any, default: Callable[[Any], Any]) -> bytes:
    # ensure_ascii would let half a surrogate pair pass, which no reader of the envelope accepts
    text = json.dumps(
        value, default=default, separators=(",", ":"), allow_nan=False, ensure_ascii=False
    )
    return text.encode()


def refuse_non_finite(value: Any) -> None:
    """Raises `EncodeError` if there is a NaN or an infinity anywhere in ``value``."""
    if isinstance(value, float) and not math.isfinite(value):
        raise EncodeError(f"cannot encode {value!r}: JSON has no such number")
    for item in _parts(value):
        if type(item) not in FINITE:
            refuse_non_finite(item)


def _parts(value: Any) -> Iterable[Any]:
    """What a container that JSON can write holds."""
    if isinstance(value, dict):
        return value.values()
    if isinstance(value, (list, tuple, set, frozenset)):
        return value
    if isinstance(value, msgspec.Struct):
        return [getattr(value, name) for name in value.__struct_fields__]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    return ()
