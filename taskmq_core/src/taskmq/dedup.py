"""The gate before a handler: of all jobs with the same dedup key, one does the work in a window.

A claim is a named lease of the store, owned by the job, so that its own retries and redeliveries
pass. It is taken just before the handler is called, kept while the job runs or waits for another
attempt, and held for the window from its success on. It is given up when the job fails for good.
What the store ends by itself (a worker lost once too often) has no one to do that: so a claim that
is not renewed ends soon, after two leases of a job.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from .codec import SKIPPED, Payload
from .envelope import Envelope, load
from .errors import MessageError, TransportError
from .flow import key_of
from .transport import Ack, DeadLetter, Delegate, Delivery, Expire, Nack, Revoke, Settlement

if TYPE_CHECKING:
    from .app import App
    from .call import Call

__all__ = ["Dedup", "dedup_of", "skipped"]

logger = logging.getLogger("taskmq.dedup")

PREFIX = "dedup:"
MARK = b'"dedup":"'
"""Is in every envelope with a key; so most others need not be decoded."""


class Running(Protocol):
    """A job that runs."""

    @property
    def delivery(self) -> Delivery: ...


class Ended(Protocol):
    """How a run ended: as much of a `taskmq.executor.Outcome` as is needed here."""

    @property
    def settlement(self) -> Settlement: ...

    @property
    def runtime(self) -> float: ...


def dedup_of(call: Call[Any]) -> str | None:
    """The key of a call, or what its task's template makes of the arguments. Raises
    `ConfigError`."""
    return key_of("dedup", call, call.task.policy.dedup)


def skipped(envelope: Envelope) -> Payload:
    """The result of a job that did not run since another one did the work."""
    return Payload(SKIPPED, msgspec.json.encode({"dedup": envelope.dedup}))


class Dedup:
    """Claims of the jobs of one app. Only jobs with a key cost anything: a call to the store before
    and another one after each run. Safe to use from several threads.

    ``hold`` is how long a claim lasts without being renewed, in seconds.
    """

    def __init__(self, app: App, *, lease: float, closes: bool = True) -> None:
        """``lease`` is that of the worker. ``closes`` is false in a child process: its parent,
        which renews the claims, closes them too, so that the two do not cross."""
        self.hold = 2 * lease
        self._app = app
        self._closes = closes
        self._lock = threading.Lock()

    def claim(self, delivery: Delivery, envelope: Envelope) -> bool:
        """Whether this job may do the work. Raises `TransportError`."""
        return self._acquire(delivery, envelope, self.hold)

    def close(self, settlement: Settlement, envelope: Envelope, *, lost: bool = False) -> None:
        """After a run: keep the claim for the window, for the next attempt, or give it up. Before
        the settlement is stored: a crash in between repeats the run, but loses none. ``lost``: its
        lease is, so that another worker has the job and decides of anything but a success. A job
        that has delegated its work has done its own.

        Never raises on account of the store; the claim ends by itself then.
        """
        if self._closes and not (lost and not isinstance(settlement, Ack)):
            self._close(settlement, envelope)

    def give_up(self, delivery: Delivery, envelope: Envelope) -> None:
        """Without a run: the claim is free again, if the store answers."""
        try:
            self._app.transport.surrender(_name(envelope), delivery.job_id)
        except TransportError as error:
            logger.debug("dedup key not given up: %s", error)

    def closing(self, done: Callable[[Any], None]) -> Callable[[Any], None]:
        """``done`` for what runs in child processes, with its claims closed first."""

        def close_and_tell(ended: Ended) -> None:
            envelope = _load(ended.settlement.delivery)
            if envelope is not None and ended.runtime > 0:  # else it was skipped, or put back
                self._close(ended.settlement, envelope)
            done(ended)

        return close_and_tell

    def renew(self, running: Mapping[str, Running]) -> None:
        """Keep the claims of what runs. A job leaves ``running`` before it is closed."""
        for job in list(running.values()):
            envelope = _load(job.delivery)
            if envelope is None:
                continue
            with self._lock:
                if job.delivery.job_id not in running:
                    continue
                try:
                    held = self._acquire(job.delivery, envelope, self.hold)
                except TransportError as error:
                    logger.debug("dedup key not renewed: %s", error)
                    continue
            if not held:
                logger.warning(
                    "job %s runs, and another one has taken its dedup key %r",
                    job.delivery.job_id,
                    envelope.dedup,
                )

    def _close(self, settlement: Settlement, envelope: Envelope) -> None:
        delivery = settlement.delivery
        with self._lock:
            try:
                if isinstance(settlement, (Ack, Delegate)):
                    self._acquire(delivery, envelope, envelope.dedup_ttl)
                elif _is_final(settlement, envelope):
                    self._app.transport.surrender(_name(envelope), delivery.job_id)
                else:
                    delay = getattr(settlement, "delay", 0.0)
                    self._acquire(delivery, envelope, delay + self.hold)
            except TransportError as error:
                logger.warning(
                    "dedup key %r of job %s ends by itself in %g s: %s",
                    envelope.dedup,
                    delivery.job_id,
                    self.hold,
                    error,
                )

    def _acquire(self, delivery: Delivery, envelope: Envelope, ttl: float) -> bool:
        return self._app.transport.acquire(_name(envelope), delivery.job_id, ttl)


def _is_final(settlement: Settlement, envelope: Envelope) -> bool:
    """Whether the job ends so, without a success."""
    if isinstance(settlement, Nack):  # the store buries it if this was the last straw
        reclaims = settlement.delivery.reclaims + 1
        return envelope.ack == "on_receipt" or reclaims >= envelope.max_deliveries
    return isinstance(settlement, (DeadLetter, Expire, Revoke))


def _name(envelope: Envelope) -> str:
    return f"{PREFIX}{envelope.dedup}"


def _load(delivery: Delivery) -> Envelope | None:
    """The envelope of a job with a key."""
    if MARK not in delivery.envelope:
        return None
    try:
        envelope = load(delivery.envelope)
    except MessageError:
        return None
    return envelope if envelope.dedup is not None else None
