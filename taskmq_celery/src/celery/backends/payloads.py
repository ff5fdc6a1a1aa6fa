"""What a backend stores of values, exceptions and records: its payloads."""

from __future__ import annotations

from typing import Any

from kombu.serialization import dumps, loads

from celery import states
from celery.result import ResultBase

from .encoding import (
    compress_payload,
    decompress_payload,
    exception_as_data,
    exception_from_data,
)

__all__ = ("Payloads",)


class Payloads:
    """Encodes and decodes, by the serializer and the compression that the app is configured with.

    An ``encode`` or ``decode`` of a subclass is what everything else goes through.
    """

    READY_STATES = states.READY_STATES
    UNREADY_STATES = states.UNREADY_STATES
    EXCEPTION_STATES = states.EXCEPTION_STATES

    app: Any
    serializer: str
    content_type: Any
    content_encoding: Any
    compression: str | None
    accept: Any

    def _encode(self, data: Any) -> Any:
        return dumps(data, serializer=self.serializer)

    def encode(self, data: Any) -> Any:
        """Data as a payload, text or bytes."""
        payload = self._encode(data)[2]
        return compress_payload(payload, self.compression) if self.compression else payload

    def decode(self, payload: Any) -> Any:
        """The data behind a payload. Raises for a serializer that is not accepted."""
        if payload is None:
            return payload
        return loads(
            decompress_payload(payload) or str(payload),
            content_type=self.content_type,
            content_encoding=self.content_encoding,
            accept=self.accept,
        )

    def encode_result(self, result: Any, state: str | None) -> Any:
        """A value or an exception as what is stored of it."""
        if state in self.EXCEPTION_STATES and isinstance(result, BaseException):
            return self.prepare_exception(result)
        return self.prepare_value(result)

    def prepare_value(self, result: Any) -> Any:
        """A value as what is stored of it: results of tasks as tuples."""
        if self.serializer != "pickle" and isinstance(result, ResultBase):
            return result.as_tuple()  # type: ignore[attr-defined]  # all results have it
        return result

    def prepare_exception(self, exc: BaseException, serializer: str | None = None) -> Any:
        """An exception as what is stored of it."""
        return exception_as_data(exc, serializer or self.serializer, self.encode)

    def exception_to_python(self, exc: Any) -> Any:
        """The exception behind what is stored of it. What names anything but an exception class
        is a `SecurityError`; nothing is called then."""
        return exception_from_data(exc, self.serializer, "celery.backends.base")

    def meta_from_decoded(self, meta: dict[str, Any]) -> dict[str, Any]:
        """A record with its exception made one."""
        if meta["status"] in self.EXCEPTION_STATES:
            meta["result"] = self.exception_to_python(meta["result"])
        return meta

    def decode_result(self, payload: Any) -> dict[str, Any]:
        """The record behind a payload."""
        return self.meta_from_decoded(self.decode(payload))
