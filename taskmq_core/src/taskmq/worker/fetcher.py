"""The exchange with the store: everything that is settled or reserved goes through here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec

from taskmq.app import App
from taskmq.envelope import load
from taskmq.errors import (
    MalformedEnvelope,
    SchemaMismatch,
    StoreCorrupt,
    TransportError,
    UnsupportedVersion,
)
from taskmq.events import JobDropped, TransportFailed
from taskmq.executor import never_ran
from taskmq.records import Dropped
from taskmq.transport import (
    DeadLetter,
    Delivery,
    Exchange,
    Expire,
    Reservation,
    Revoke,
    Settled,
    Settlement,
)

from .backoff import FIRST, Backoff
from .lease import LeaseKeeper
from .pace import REAL, Pace
from .pulse import Place, Pulse
from .quotas import Quotas
from .recall import Recall
from .report import Tally
from .timelimits import TimeLimits

__all__ = ["Fetcher"]

logger = logging.getLogger("taskmq.worker")

HOPELESS = (StoreCorrupt, SchemaMismatch)
"""Waiting does not mend these: they end the worker."""


class Fetcher:
    """Settles the finished and reserves the next, in one call, for one worker.

    A store that does not answer costs nothing but time: settlements stay in ``unsent``, and
    ``resume_at`` (``pace.monotonic()``) says when to try again.
    """

    def __init__(
        self,
        app: App,
        *,
        worker: str,
        queues: Mapping[str, int],
        lease: float,
        keeper: LeaseKeeper,
        pace: Pace = REAL,
        on_settled: Callable[[Sequence[Settlement]], None] | None = None,
        on_dropped: Callable[[Sequence[Dropped]], None] | None = None,
    ) -> None:
        self.unsent: list[Settlement] = []
        self.sending: list[Settlement] = []
        """What is on its way to the store, and may not get there if the process ends now."""
        self.resume_at = 0.0
        self.pulse = Pulse()
        self.tally = Tally()
        self.time_limits = TimeLimits()
        self._app = app
        self._transport = app.transport
        self._worker = worker
        self._queues = queues
        self._quotas = Quotas(queues, app.config.queues)
        self._lease = lease
        self._keeper = keeper
        self._on_settled = on_settled
        self._on_dropped = on_dropped
        self._monotonic = pace.monotonic
        self._backoff = Backoff(pace.draw)
        self._down_since = 0.0
        self._unstarted: set[int] = set()  # deliveries that were revoked before they started

    def consume(self, queues: Mapping[str, int]) -> None:
        """Reserve from these queues from now on, by weight. From any thread."""
        self._queues = queues
        self._quotas.watch(queues)

    @property
    def is_answered(self) -> bool:
        """Whether the store answered last time."""
        return not self._backoff.failures

    def exchange(self, limit: int | None) -> Exchange | None:
        """Send what is unsent and reserve up to ``limit`` (``None``: reserve nothing, look at
        nothing). ``None`` if the store did not answer. Raises `StoreCorrupt`, `SchemaMismatch`.
        """
        settlements = self.sending = self.unsent
        self.unsent = []
        if settlements:
            self._quotas.let_go(settlement.delivery for settlement in settlements)
            self._keeper.let_go(settlements)
        reservation = None if limit is None or not self._queues else self._reservation(limit)
        began = self._monotonic()
        try:
            answer = self._call(settlements, reservation)
        except HOPELESS:
            raise
        except TransportError as error:
            self._keep(settlements)
            self._failed(error, began)
            return None
        except Exception as error:
            logger.exception("the store failed in a way that it should not")
            self._one_by_one(settlements)
            self._failed(error, began)
            return None
        if self._backoff.failures:
            self._recovered()
        if settlements:
            self._account(settlements, answer.settled)
        if answer.deliveries:
            deliveries = self.time_limits.apply(answer.deliveries)
            if deliveries is not answer.deliveries:
                answer = msgspec.structs.replace(answer, deliveries=deliveries)
            self._keeper.hold(answer.deliveries)
            self._quotas.hold(answer.deliveries)
        if answer.dropped:
            self.report_dropped(answer.dropped)
        return answer

    def revoke_unstarted(self, delivery: Delivery) -> Revoke:
        """The settlement of a delivery that was revoked before it started. Once the store has it,
        whoever listens is told: no attempt can. Safe from any thread."""
        self._unstarted.add(id(delivery))
        return Revoke(delivery)

    def _call(self, settlements: Sequence[Settlement], reservation: Reservation | None) -> Exchange:
        self.pulse.at(Place.STORE)
        try:
            return self._transport.exchange(settlements, reservation)
        finally:
            self.sending = []
            self.pulse.at(Place.WORKING)

    def _reservation(self, limit: int) -> Reservation:
        return Reservation(
            queues=self._queues,
            worker=self._worker,
            lease=self._lease,
            limit=limit,
            quotas=self._quotas.left(),
        )

    def _account(self, settlements: Sequence[Settlement], settled: Sequence[Settled]) -> None:
        done: Sequence[Settlement] = settlements
        if settled.count(Settled.LEASE_LOST):
            done = accepted = []
            for settlement, status in zip(settlements, settled, strict=True):
                if status is not Settled.LEASE_LOST:
                    accepted.append(settlement)
                    continue
                logger.warning(
                    "job %s: %s refused, its lease was lost; the job belongs to another now",
                    settlement.delivery.job_id,
                    type(settlement).__name__,
                )
        if self._unstarted:
            done = self._account_unstarted(settlements, done)
        self.tally.add(done)
        if self._on_settled is not None:
            self._on_settled(done)
        if self._on_dropped is not None:
            dropped = [dropped_by(settlement) for settlement in done]
            self._tell_dropped([job for job in dropped if job is not None])

    def _account_unstarted(
        self, settlements: Sequence[Settlement], done: Sequence[Settlement]
    ) -> Sequence[Settlement]:
        """Tell of what was revoked before it started; the others that are done."""
        unstarted = {id(each.delivery) for each in settlements} & self._unstarted
        self._unstarted -= unstarted
        over = [each.delivery for each in done if id(each.delivery) in unstarted]
        if over:
            self.report_dropped([about(delivery, Recall.REVOKED.value) for delivery in over])
        return [each for each in done if id(each.delivery) not in unstarted]

    def report_dropped(self, dropped: Sequence[Dropped]) -> None:
        """Tell whoever listens of jobs that ended in the store."""
        for job in dropped:
            logger.info("job %s of task %s dropped: %s", job.job_id, job.task, job.reason)
        if self._app.emitter.active:
            now = self._app.clock.now()
            self._app.emitter.emit(
                *(
                    JobDropped(
                        at=now, job_id=job.job_id, task=job.task, queue=job.queue, reason=job.reason
                    )
                    for job in dropped
                )
            )
        self._tell_dropped(dropped)

    def _tell_dropped(self, dropped: Sequence[Dropped]) -> None:
        if dropped and self._on_dropped is not None:
            self._on_dropped(dropped)

    # -- a store that does not answer --------------------------------------------------------

    def _keep(self, settlements: list[Settlement]) -> None:
        """Nothing happened: hold on to the leases and say it all again next time."""
        self.unsent = settlements + self.unsent
        self._keeper.hold(settlement.delivery for settlement in settlements)
        self._quotas.hold(settlement.delivery for settlement in settlements)

    def _failed(self, error: Exception, began: float) -> None:
        now = self._monotonic()
        # An attempt that was in vain for seconds was a wait already.
        delay = max(self._backoff.next() - (now - began), FIRST / 2)
        self.resume_at = now + delay
        if self._backoff.failures == 1:
            self._down_since = self._monotonic()
            logger.warning("the store does not answer, trying until it does: %s", error)
        if self._app.emitter.active:
            self._app.emitter.emit(
                TransportFailed(
                    at=self._app.clock.now(),
                    operation="exchange",
                    error=str(error),
                    retry_in=delay,
                )
            )

    def _recovered(self) -> None:
        logger.info(
            "the store answers again, after %.1f s and %d attempts",
            self._monotonic() - self._down_since,
            self._backoff.failures,
        )
        self._backoff.reset()
        self.resume_at = 0.0

    def _one_by_one(self, settlements: list[Settlement]) -> None:
        """One settlement that breaks the store must not take the others with it for ever.

        A culprit is dropped here; its job is taken back when the lease ends, and becomes a dead
        letter when that has happened too often.
        """
        for settlement in settlements:
            try:
                self._account([settlement], self._transport.settle([settlement]))
            except TransportError:  # each one is an attempt of its own
                self._keep([settlement])
            except Exception:
                logger.exception("job %s cannot be settled", settlement.delivery.job_id)


def dropped_by(settlement: Settlement) -> Dropped | None:
    """What a settlement means for `WorkerHook.on_dropped`: something, if no attempt was made."""
    if isinstance(settlement, Expire):
        return about(settlement.delivery, "expired")
    if isinstance(settlement, DeadLetter) and never_ran(settlement):
        return about(settlement.delivery, settlement.reason)
    return None


def about(delivery: Delivery, reason: str) -> Dropped:
    """Of a job that ended unstarted."""
    try:
        task = load(delivery.envelope).task
    except (MalformedEnvelope, UnsupportedVersion):
        task = ""
    return Dropped(delivery.job_id, task, delivery.queue, reason)
