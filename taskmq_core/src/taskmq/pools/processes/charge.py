"""What a worker knows of one child, and of the job that runs there."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from taskmq.envelope import load
from taskmq.errors import HardTimeLimit, JobCancelled, MalformedEnvelope, UnsupportedVersion
from taskmq.transport import Delivery

from .channel import Channel
from .wire import Work

__all__ = ["Charge", "RemoteJob", "hard_limit_of", "is_given_up_when_lost"]


class RemoteJob:
    """A job that runs in a child, to those who look after it: the part of a `TaskContext` that
    the worker uses. Setting ``cancelled`` tells the task."""

    __slots__ = ("_cancelled", "_tell", "delivery", "lease_lost", "pid", "started_at")

    def __init__(
        self,
        delivery: Delivery,
        started_at: float,
        tell: Callable[[RemoteJob], None],
        pid: int = 0,
    ) -> None:
        self.delivery = delivery
        self.started_at = started_at
        self.pid = pid
        self.lease_lost = False
        self._cancelled = False
        self._tell = tell

    @property
    def cancelled(self) -> bool:
        return self._cancelled

    @cancelled.setter
    def cancelled(self, value: bool) -> None:
        self._cancelled = value
        if value:
            self._tell(self)

    @property
    def task(self) -> str:
        try:
            return load(self.delivery.envelope).task
        except (MalformedEnvelope, UnsupportedVersion):
            return ""


class Charge:
    """One child. ``number`` is never used again; ``outstanding`` are the deliveries that it has
    and that have not ended, in the order in which it runs them."""

    def __init__(self, number: int, channel: Channel) -> None:
        self.number = number
        self.channel = channel
        self.pid = 0
        self.born_at = time.monotonic()
        self.ready = False
        self.spent = False
        """Gets nothing more: it is to be replaced, or is one too many, or is dying."""
        self.silent = False
        """Its end of the socket is closed."""
        self.leaving = ""
        """Why it said that it goes."""
        self.outstanding: dict[int, Delivery] = {}
        self.weight = 0  # bytes of these
        self.fed = 0
        self.finished = 0
        self.running: RemoteJob | None = None
        self.current = 0
        """Number of the delivery that runs, 0 if none is known to."""
        self.since = 0.0
        self.limits: dict[int, float] = {}  # hard ones, of outstanding deliveries
        self.condemned: int | None = None
        """The delivery on whose account it is being killed; 0 for whatever it runs."""
        self.cause: HardTimeLimit | JobCancelled | None = None

    @property
    def takes_work(self) -> bool:
        return self.ready and not self.spent

    def give(self, works: list[Work]) -> None:
        """Send deliveries, which it has from now on."""
        for work in works:
            self.outstanding[work.seq] = work.delivery
            self.weight += len(work.delivery.envelope)
            limit = hard_limit_of(work.delivery.envelope)
            if limit is not None:
                self.limits[work.seq] = limit
        self.fed += len(works)
        self.channel.send(works)

    def take(self, number: int) -> Delivery:
        """One that it has no more."""
        delivery = self.outstanding.pop(number)
        self.weight -= len(delivery.envelope)
        self.limits.pop(number, None)
        return delivery

    def take_back(self) -> list[tuple[int, Delivery]]:
        """All that it has not started and will not start any more."""
        numbers = self.channel.take_back()
        self.fed -= len(numbers)
        return [(number, self.take(number)) for number in numbers]

    def kill_at(self) -> float | None:
        """When the job that runs has to be over (monotonic clock)."""
        limit = self.limits.get(self.current) if self.limits else None
        return None if limit is None or self.condemned is not None else self.since + limit


class _Limits(msgspec.Struct):
    hard_timeout: float | None = None


_decode_limits = msgspec.json.Decoder(_Limits).decode


def hard_limit_of(envelope: bytes) -> float | None:
    """``hard_timeout`` in seconds. Bytes that are no envelope have none."""
    if b'"hard_timeout"' not in envelope:  # of many megabytes, perhaps, that nobody reads here
        return None
    try:
        return _decode_limits(envelope).hard_timeout
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def is_given_up_when_lost(envelope: bytes) -> bool:
    """Whether a run that was cut short must not be repeated (``ack="on_receipt"``)."""
    try:
        return load(envelope).ack == "on_receipt"
    except (MalformedEnvelope, UnsupportedVersion):
        return False
