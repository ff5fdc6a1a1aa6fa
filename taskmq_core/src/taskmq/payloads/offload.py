"""To the payload store and back: what an envelope or a result becomes on the way."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable

import msgspec

from taskmq.codec import Payload
from taskmq.envelope import Envelope, fingerprint
from taskmq.errors import DecodeError, EncodeError, PayloadLost, PayloadUnavailable
from taskmq.references import OFFLOADED, Reference, dump_reference, load_reference

from .names import Kind, is_name, name_of
from .store import PayloadStore

__all__ = ["Offload"]

logger = logging.getLogger("taskmq.payloads")


class _Arguments(msgspec.Struct, frozen=True):
    """What is stored of an envelope: its fields, as they were in it."""

    args: msgspec.Raw
    kwargs: msgspec.Raw


_encode = msgspec.json.Encoder().encode
_decode_arguments = msgspec.json.Decoder(_Arguments).decode
_decode_references = msgspec.json.Decoder(list[Reference]).decode


class Offload:
    """The payload store of one app, and when it is used.

    What is written is written before anything refers to it, and read back by its digest, so that
    a reference leads to the very bytes or to a `PayloadLost`.
    """

    def __init__(self, open_store: Callable[[], PayloadStore], above: int | None) -> None:
        """``above``: payloads of more than so many bytes are stored; ``None``: none is, and those
        that others have stored are read. ``open_store`` is called on first use."""
        self.above = above
        self._open_store = open_store
        self._store: PayloadStore | None = None
        self._opening = threading.Lock()

    @property
    def store(self) -> PayloadStore:
        """Raises `taskmq.errors.ConfigError`."""
        if self._store is None:
            with self._opening:
                if self._store is None:
                    self._store = self._open_store()
        return self._store

    # -- arguments -----------------------------------------------------------------------------

    def send(self, envelope: Envelope) -> Envelope:
        """An envelope whose arguments are stored, if they are large.

        Raises `PayloadUnavailable`, and `EncodeError` for a job id that cannot be a name.
        """
        size = len(memoryview(envelope.args)) + len(memoryview(envelope.kwargs))
        if self.above is None or size <= self.above or envelope.codec == OFFLOADED:
            return envelope
        mark = fingerprint(envelope).hex() if envelope.key is not None else ""
        data = _encode(_Arguments(envelope.args, envelope.kwargs))
        digest = hashlib.sha256(data).hexdigest()
        name = name_of(envelope.id, Kind.ARGUMENTS, digest)
        reference = self._put(name, digest, data, envelope.codec, mark)
        return msgspec.structs.replace(
            envelope,
            codec=OFFLOADED,
            args=msgspec.Raw(_encode([reference])),
            kwargs=msgspec.Raw(b"{}"),
        )

    def fetch(self, envelope: Envelope) -> Envelope:
        """The envelope as it was before `send`. Raises `PayloadLost`, `PayloadUnavailable`, and
        `DecodeError` for what is no reference."""
        reference = reference_of(envelope)
        try:
            arguments = _decode_arguments(self._get(reference))
        except msgspec.DecodeError as error:
            raise PayloadLost(f"payload {reference.name} holds no arguments: {error}") from None
        return msgspec.structs.replace(
            envelope, codec=reference.codec, args=arguments.args, kwargs=arguments.kwargs
        )

    def discard(self, envelope: Envelope) -> None:
        """Take out what was stored for a job that does not exist after all."""
        try:
            self.store.delete([reference_of(envelope).name])
        except PayloadUnavailable as error:
            logger.debug("left to a sweep: %s", error)

    # -- results -------------------------------------------------------------------------------

    def send_result(self, job_id: str, payload: Payload, workflow: str | None = None) -> Payload:
        """A reference to a result, if that is large.

        Where the payload store does not work, the result stays in the job store: the task has run,
        and running it again would not help.
        """
        if self.above is None or len(payload.data) <= self.above:
            return payload
        digest = hashlib.sha256(payload.data).hexdigest()
        try:
            name = name_of(job_id, Kind.RESULT, digest, workflow)
            reference = self._put(name, digest, payload.data, payload.codec)
        except (EncodeError, PayloadUnavailable) as error:
            logger.warning("the result of job %s stays in the job store: %s", job_id, error)
            return payload
        return Payload(OFFLOADED, dump_reference(reference))

    def fetch_result(self, payload: Payload) -> Payload:
        """The result that a reference stands for. Raises as `fetch` does."""
        try:
            reference = load_reference(payload.data)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise DecodeError(f"no reference to a payload: {error}") from None
        return Payload(reference.codec, self._get(reference))

    # -- both ----------------------------------------------------------------------------------

    def _put(self, name: str, digest: str, data: bytes, codec: str, mark: str = "") -> Reference:
        self.store.put(name, data)
        return Reference(name=name, size=len(data), sha256=digest, codec=codec, fingerprint=mark)

    def _get(self, reference: Reference) -> bytes:
        if not is_name(reference.name):
            raise DecodeError(f"{reference.name!r} is no name of a payload")
        data = self.store.get(reference.name)
        if data is None:
            raise PayloadLost(
                f"payload {reference.name} ({reference.size:,} bytes) is not in the payload store",
                reason="payload_missing",
            )
        if len(data) != reference.size or hashlib.sha256(data).hexdigest() != reference.sha256:
            raise PayloadLost(
                f"payload {reference.name} is damaged: {len(data):,} bytes instead of "
                f"{reference.size:,}, or other ones (its SHA-256 differs)"
            )
        return data


def reference_of(envelope: Envelope) -> Reference:
    """Raises `DecodeError`."""
    try:
        (reference,) = _decode_references(envelope.args)
    except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
        raise DecodeError(f"no reference to a payload: {error}") from None
    return reference
