"""How a stored result looks: exceptions as data, and payloads that are compressed.

Nothing that is stored is ever looked up and called, but an exception class: an exception is made
of its class only where that is imported already and derives from ``BaseException``. What names
anything else is a `SecurityError`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from kombu.compression import compress, decompress
from kombu.utils.encoding import ensure_bytes

from celery.exceptions import SecurityError
from celery.utils.serialization import (
    create_exception_cls,
    ensure_serializable,
    get_pickleable_exception,
    get_pickled_exception,
)

__all__ = (
    "COMPRESSED_PAYLOAD_MAGIC",
    "EXCEPTION_ABLE_CODECS",
    "compress_payload",
    "decompress_payload",
    "exception_as_data",
    "exception_from_data",
)

EXCEPTION_ABLE_CODECS = frozenset({"pickle"})
"""Serializers that take exceptions as they are."""

COMPRESSED_PAYLOAD_MAGIC = b"\x00celery-compressed\x00"
"""What a compressed payload starts with; no serializer's output does."""

NOT_THERE = object()


# -- compression ---------------------------------------------------------------------------------


def compress_payload(payload: Any, compression: str) -> bytes:
    """A payload with the mark, its kind of compression and then the compressed bytes."""
    packed, content_type = compress(ensure_bytes(payload), compression)
    head = COMPRESSED_PAYLOAD_MAGIC + content_type.encode() + b"\x00"
    return bytes(head + ensure_bytes(packed))


def decompress_payload(payload: Any) -> Any:
    """What `compress_payload` packed; any other payload as it is."""
    if isinstance(payload, memoryview):
        payload = payload.tobytes()
    if not (isinstance(payload, bytes) and payload.startswith(COMPRESSED_PAYLOAD_MAGIC)):
        return payload
    content_type, _, packed = payload[len(COMPRESSED_PAYLOAD_MAGIC) :].partition(b"\x00")
    return decompress(packed, content_type.decode())


# -- exceptions ----------------------------------------------------------------------------------


def exception_as_data(
    exc: BaseException, serializer: str, encode: Callable[[Any], Any]
) -> BaseException | dict[str, Any]:
    """What is stored of an exception: itself where the serializer takes it, else its class by name
    and its arguments, each as text if ``encode`` refuses it."""
    if serializer in EXCEPTION_ABLE_CODECS:
        storable: BaseException = get_pickleable_exception(exc)
        return storable
    kind = type(exc)
    return {
        "exc_type": getattr(kind, "__qualname__", kind.__name__),
        "exc_message": ensure_serializable(exc.args, encode),
        "exc_module": kind.__module__,
    }


def exception_from_data(stored: Any, serializer: str, default_module: str) -> Any:
    """The exception behind what `exception_as_data` gave, or a real Celery; ``None`` for none.

    Raises `SecurityError` for what names no exception class, ``ValueError`` and ``TypeError`` for
    what is no exception at all.
    """
    if not stored:
        return None
    if isinstance(stored, BaseException):
        return get_pickled_exception(stored) if serializer in EXCEPTION_ABLE_CODECS else stored
    if not isinstance(stored, Mapping):
        try:
            stored = dict(stored)
        except TypeError as error:
            raise TypeError(
                "If the stored exception isn't an instance of BaseException, it must be a "
                f"dictionary.\nInstead got: {stored}"
            ) from error
    if not stored.get("exc_type"):
        raise ValueError("Exception information must include the exception type")
    name, module = stored["exc_type"], stored.get("exc_module")
    message = stored.get("exc_message", "")
    kind = _class_of(name, module, message, default_module)
    try:
        return kind(*message) if isinstance(message, (tuple, list)) else kind(message)
    except Exception:  # its constructor wants something else
        return Exception(f"{kind}({message})")


def _class_of(name: str, module: str | None, message: Any, default_module: str) -> Any:
    if module is None:
        return create_exception_cls(name, default_module)
    found: Any = sys.modules.get(str(module), NOT_THERE)
    for part in str(name).split("."):
        found = getattr(found, "__dict__", {}).get(part, NOT_THERE)
        if found is NOT_THERE:
            return create_exception_cls(name, "celery.exceptions")
    if isinstance(found, type) and issubclass(found, BaseException):
        return found
    raise SecurityError(f"Expected an exception class, got {module}.{name} with payload {message}")
