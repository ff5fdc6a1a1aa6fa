"""Envelope v1: the wire form of a job, JSON, never rewritten after it was stored.

What changes in a job's life (state, attempt, deliveries) is the store's, in its own columns; the
envelope stays the bytes that the producer wrote. Arguments inside it stay encoded until the
executor needs them. ``docs/reference/envelope.md`` lists the fields.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from .codec import Payload, refuse_non_finite
from .errors import EncodeError, MalformedEnvelope, MessageTooLarge, UnsupportedVersion
from .limits import Capacity, Fair, Limit
from .references import OFFLOADED, Reference

__all__ = [
    "DAY",
    "OWN",
    "VERSION",
    "AckPolicy",
    "Dependency",
    "Envelope",
    "RunIf",
    "Sealed",
    "embed",
    "extract",
    "fingerprint",
    "load",
    "seal",
    "seal_alike",
]

VERSION = 1
DAY = 86_400.0
"""Lifetime of keys and results unless set. One object: msgspec omits a default by identity."""

AckPolicy = Literal["on_success", "on_receipt", "on_completion"]
"""When a job is done with: after it succeeded (the default, at least once); as soon as a worker
has it (at most once: a lost worker loses the run); after it ran, however it ended (no retry)."""


RunIf = Literal["succeeded", "failed", "finished"]
"""When a job with dependencies runs: once all of them have succeeded (the default: it is SKIPPED
as soon as one is lost); once all have finished and one at least was lost (it is SKIPPED if all
succeeded); once all have finished, however they ended."""


class Dependency(msgspec.Struct, frozen=True, omit_defaults=True):
    """A job that this one waits for, and where its result goes.

    ``into`` is a position among the arguments (the result is inserted there, counted in the final
    argument list), a keyword, or ``None`` for order alone. Dependencies that share ``into`` and
    set ``collect`` arrive as one list in declared order.
    """

    job: str
    into: int | str | None = None
    collect: bool = False


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One job as it is stored and sent. Instants are epoch seconds, durations seconds."""

    v: int
    id: str
    task: str
    queue: str
    args: msgspec.Raw = msgspec.Raw(b"[]")
    kwargs: msgspec.Raw = msgspec.Raw(b"{}")
    codec: str = "json"
    priority: int = 0
    eta: float | None = None
    expires_at: float | None = None
    timeout: float | None = None
    hard_timeout: float | None = None
    ack: AckPolicy = "on_success"
    max_attempts: int | None = None
    max_deliveries: int = 5
    key: str | None = None
    key_ttl: float = DAY
    store_result: bool = True
    result_ttl: float = DAY
    feeds: bool = False
    after: tuple[Dependency, ...] = ()
    run_if: RunIf = "succeeded"
    workflow: str | None = None
    fail_fast: bool = False
    limits: tuple[Limit, ...] = ()
    fair: Fair | None = None
    dedup: str | None = None
    dedup_ttl: float = DAY
    trace: dict[str, str] = {}
    headers: dict[str, Any] = {}
    enqueued_at: float = 0.0


OWN = ("id", "args", "kwargs", "codec", "after", "feeds", "enqueued_at")
"""The fields in which an envelope may differ from the pattern that it was made of."""
BYTES_EACH = 80
"""Of a dependency, at most: what a job waits for does not count for the limit of its size."""


class _Version(msgspec.Struct):
    v: int


class Sealed(msgspec.Struct, frozen=True, gc=False):
    """An envelope and its bytes: what a store keeps. ``capacity``: if its queue has room.

    ``pattern`` is what the envelope was made of, the same object for many jobs of a batch: only
    `OWN` fields differ. A store need not look at all of the others again.
    """

    envelope: Envelope
    data: bytes
    capacity: Capacity | None = None
    pattern: Envelope | None = None


_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines
_decode = msgspec.json.Decoder(Envelope).decode
_decode_version = msgspec.json.Decoder(_Version).decode
_decode_text = msgspec.json.Decoder(str).decode
_decode_references = msgspec.json.Decoder(list[Reference]).decode
_decode_any = msgspec.json.Decoder().decode
_encode_sorted = msgspec.json.Encoder(order="deterministic").encode


def seal(
    envelope: Envelope,
    limit: int,
    capacity: Capacity | None = None,
    pattern: Envelope | None = None,
) -> Sealed:
    """Encode an envelope. ``capacity`` and ``pattern`` as in `Sealed`.

    Raises `MessageTooLarge` over ``limit`` bytes, dependencies aside, and `EncodeError` where
    ``headers`` hold something that is no JSON, or a text is not Unicode.
    """
    try:
        data = _encode(envelope)
        if envelope.headers:
            refuse_non_finite(envelope.headers)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise EncodeError(f"cannot encode a job of {envelope.task!r}: {error}") from None
    if len(data) > limit + BYTES_EACH * len(envelope.after):
        raise MessageTooLarge(
            f"job of task {envelope.task!r} is {len(data):,} bytes, over the limit of {limit:,} "
            "(max_message_bytes); pass a reference to the data instead of the data"
        )
    return Sealed(envelope, data, capacity, pattern)


def seal_alike(
    envelopes: Sequence[Envelope], limit: int, pattern: Envelope, capacity: Capacity | None
) -> list[Sealed]:
    """`seal` for envelopes that were made of one pattern, by one call of the encoder."""
    try:
        lines = _encode_lines(envelopes).split(b"\n")[:-1]
        if pattern.headers:
            refuse_non_finite(pattern.headers)
    except (EncodeError, TypeError, ValueError, OverflowError, RecursionError):
        lines = []  # `seal` says what is wrong, and with which
    if len(lines) != len(envelopes) or max(map(len, lines), default=0) > limit:
        lines = [seal(each, limit).data for each in envelopes]
    return [
        Sealed(envelope, data, capacity, pattern)
        for envelope, data in zip(envelopes, lines, strict=True)
    ]


def fingerprint(envelope: Envelope) -> bytes:
    """What an idempotency key stands for: 16 bytes of the task and its encoded arguments.

    The order of keywords, and of keys in dicts, makes no difference. The order of a set does: it
    was a list by the time it was encoded. Where the arguments were taken out of the envelope, the
    reference has what it was before.
    """
    if envelope.codec == OFFLOADED:
        with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, ValueError):
            (reference,) = _decode_references(envelope.args)
            if reference.fingerprint:
                return bytes.fromhex(reference.fingerprint)
    sorted_ = [_encode_sorted(_decode_any(field)) for field in (envelope.args, envelope.kwargs)]
    parts = (envelope.task.encode(), envelope.codec.encode(), *sorted_)
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.digest()


def load(data: bytes) -> Envelope:
    """Read an envelope; its arguments stay encoded.

    Raises `UnsupportedVersion` for another protocol version and `MalformedEnvelope` for bytes
    that are no envelope. Unknown fields are ignored: version 1 may gain fields.
    """
    try:
        envelope = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        _refuse_other_version(data)
        raise MalformedEnvelope(f"not a version {VERSION} envelope: {error}") from None
    if envelope.v != VERSION:
        raise UnsupportedVersion(f"envelope version {envelope.v}; this worker reads {VERSION}")
    return envelope


Limits = tuple[float | None, float | None]
"""``timeout`` and ``hard_timeout``, seconds."""


class _Limits(msgspec.Struct):
    task: str = ""
    timeout: float | None = None
    hard_timeout: float | None = None


_decode_limits = msgspec.json.Decoder(_Limits).decode


def limits_of(data: bytes) -> tuple[str, Limits]:
    """The task and the limits of an envelope; bytes that are none have none."""
    try:
        found = _decode_limits(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "", (None, None)
    return found.task, (found.timeout, found.hard_timeout)


def limited(data: bytes, limits: Limits) -> bytes:
    """An envelope with these limits. Raises as `load` does."""
    timeout, hard_timeout = limits
    changes = {"timeout": timeout, "hard_timeout": hard_timeout}
    return _encode(msgspec.structs.replace(load(data), **changes))


def _refuse_other_version(data: bytes) -> None:
    try:
        version = _decode_version(data).v
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    if version != VERSION:
        raise UnsupportedVersion(f"envelope version {version}; this worker reads {VERSION}")


def embed(data: bytes, *, is_json: bool) -> msgspec.Raw:
    """Codec output as an envelope field: JSON text as it is, other bytes as base64."""
    return msgspec.Raw(data if is_json else b'"' + base64.b64encode(data) + b'"')


def extract(field: msgspec.Raw, codec: str, *, is_json: bool) -> Payload:
    """The inverse of `embed`. Raises `MalformedEnvelope` where the field is no base64."""
    if is_json:
        return Payload(codec, bytes(field))
    try:
        return Payload(codec, base64.b64decode(_decode_text(field), validate=True))
    except (msgspec.DecodeError, ValueError) as error:
        raise MalformedEnvelope(f"field is not base64: {error}") from None
