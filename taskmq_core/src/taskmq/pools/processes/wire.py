"""What crosses the pipes between a worker and its children: msgpack in frames, and no pickle.

A frame is a length and a list of messages, so that what comes together costs one decode. To a child
go `Work`, each delivery with a number; from it come reports, which name a delivery by its number:
the parent still has it. Settlements travel as verdicts, which are settlements without the delivery.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import msgspec

from taskmq import events
from taskmq.codec import Payload
from taskmq.config import Config
from taskmq.envelope import Sealed, load
from taskmq.records import Failure
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    Delegate,
    Delivery,
    Expire,
    Nack,
    Release,
    RetryLater,
    Revoke,
    Settlement,
)

__all__ = [
    "LENGTH",
    "RELAYED",
    "Broken",
    "Ended",
    "Frames",
    "Happened",
    "Hello",
    "Leaving",
    "Ready",
    "Report",
    "Started",
    "Verdict",
    "Work",
    "decode_hello",
    "decode_reports",
    "decode_works",
    "encode",
    "settlement_of",
    "verdict_of",
]

LENGTH = struct.Struct("!I")

# -- to a child ------------------------------------------------------------------------------------


class Work(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A delivery, with the number by which both sides know it."""

    seq: int
    delivery: Delivery


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """What a process that was started afresh has to know."""

    spec: str
    """``module:attribute`` of the app."""
    path: list[str]
    """``sys.path`` of the worker."""
    config: Config
    worker: str
    log_level: int
    events: bool
    """Whether anybody in the parent wants events."""
    shared: bool
    """Whether the store can be opened by a child."""


# -- from a child: verdicts ------------------------------------------------------------------------


class Acked(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ack"):
    result: Payload | None
    spawn: list[bytes] = []


class Delegated(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="delegate"):
    jobs: list[bytes]
    to: str


class Retried(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="retry"):
    delay: float
    failure: Failure
    envelope: bytes | None


class Nacked(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="nack"):
    delay: float
    detail: str


class Buried(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="dead"):
    reason: str
    failure: Failure


class Deferred(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="defer"):
    delay: float
    park: str | None
    park_ttl: float | None


class Released(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="release"):
    pass


class Expired(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="expire"):
    pass


class Revoked(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="revoke"):
    pass


Verdict = Acked | Delegated | Retried | Nacked | Buried | Deferred | Released | Expired | Revoked


def verdict_of(settlement: Settlement) -> Verdict:
    """What a settlement says, without the delivery."""
    if isinstance(settlement, Ack):
        return Acked(settlement.result, [sealed.data for sealed in settlement.spawn])
    if isinstance(settlement, Delegate):
        return Delegated([sealed.data for sealed in settlement.jobs], settlement.to)
    if isinstance(settlement, RetryLater):
        sealed = settlement.envelope
        return Retried(settlement.delay, settlement.failure, sealed.data if sealed else None)
    if isinstance(settlement, Nack):
        return Nacked(settlement.delay, settlement.detail)
    if isinstance(settlement, DeadLetter):
        return Buried(settlement.reason, settlement.failure)
    if isinstance(settlement, Defer):
        return Deferred(settlement.delay, settlement.park, settlement.park_ttl)
    if isinstance(settlement, Release):
        return Released()
    return Expired() if isinstance(settlement, Expire) else Revoked()


def settlement_of(verdict: Verdict, delivery: Delivery) -> Settlement:
    """The inverse of `verdict_of`."""
    if isinstance(verdict, Acked):
        return Ack(delivery, verdict.result, tuple(map(_sealed, verdict.spawn)))
    if isinstance(verdict, Delegated):
        return Delegate(delivery, tuple(map(_sealed, verdict.jobs)), verdict.to)
    if isinstance(verdict, Retried):
        sealed = None if verdict.envelope is None else _sealed(verdict.envelope)
        return RetryLater(delivery, verdict.delay, verdict.failure, sealed)
    if isinstance(verdict, Nacked):
        return Nack(delivery, verdict.delay, verdict.detail)
    if isinstance(verdict, Buried):
        return DeadLetter(delivery, verdict.reason, verdict.failure)
    if isinstance(verdict, Deferred):
        return Defer(delivery, verdict.delay, verdict.park, verdict.park_ttl)
    if isinstance(verdict, Released):
        return Release(delivery)
    return Expire(delivery) if isinstance(verdict, Expired) else Revoke(delivery)


def _sealed(data: bytes) -> Sealed:
    return Sealed(load(data), data)


# -- from a child: reports -------------------------------------------------------------------------

Happening = (
    events.JobSubmitted
    | events.JobStarted
    | events.JobSucceeded
    | events.JobFailed
    | events.JobRetrying
    | events.JobDelegated
    | events.JobDeferred
    | events.JobReleased
    | events.JobDropped
    | events.TransportFailed
)
RELAYED = frozenset(Happening.__args__)
"""The kinds of events that cross the pipe."""


class Ready(msgspec.Struct, frozen=True, array_like=True, tag="ready"):
    """The app is there and the hooks have run: work may come."""


class Broken(msgspec.Struct, frozen=True, array_like=True, tag="broken"):
    """It cannot become ready; ``text`` says why, in one line."""

    text: str


class Started(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="started"):
    """``at`` is of the monotonic clock, which all processes of a machine share."""

    seq: int
    at: float


class Ended(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ended"):
    seq: int
    verdict: Verdict
    runtime: float


class Happened(msgspec.Struct, frozen=True, array_like=True, tag="events"):
    """Events for the parent's sinks."""

    events: list[Happening]


class Leaving(msgspec.Struct, frozen=True, array_like=True, tag="leaving"):
    """It takes nothing more and ends now, in order. ``reason`` is for the log."""

    reason: str


Report = Ready | Broken | Started | Ended | Happened | Leaving

# -- frames ----------------------------------------------------------------------------------------

_encoder = msgspec.msgpack.Encoder()
decode_works = msgspec.msgpack.Decoder(list[Work]).decode
decode_reports = msgspec.msgpack.Decoder(list[Report]).decode
decode_hello = msgspec.msgpack.Decoder(Hello).decode


def encode(message: Hello | Sequence[Work] | Sequence[Report]) -> bytearray:
    """One frame."""
    frame = bytearray(LENGTH.size)
    _encoder.encode_into(message, frame, LENGTH.size)
    LENGTH.pack_into(frame, 0, len(frame) - LENGTH.size)
    return frame


class Frames:
    """Takes bytes as they come and gives whole frames, without their lengths."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._wanted = LENGTH.size  # no frame is complete with fewer bytes

    def feed(self, data: bytes) -> list[bytes]:
        """The frames that ``data`` completes."""
        buffer = self._buffer
        buffer += data
        if len(buffer) < self._wanted:
            return []
        frames, start, size = [], 0, len(buffer)
        while size - start >= LENGTH.size:
            end = start + LENGTH.size + LENGTH.unpack_from(buffer, start)[0]
            if end > size:
                self._wanted = end - start
                break
            frames.append(bytes(buffer[start + LENGTH.size : end]))
            start = end
        else:
            self._wanted = LENGTH.size
        del buffer[:start]
        return frames
