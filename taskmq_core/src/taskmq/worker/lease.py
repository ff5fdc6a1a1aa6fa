"""Keeping the leases of everything that a worker holds, started or not."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence

from taskmq.clock import Clock
from taskmq.errors import TransportError
from taskmq.pools import RunningJob
from taskmq.transport import Delivery, LeaseStatus, Reserver, Settlement

from .recall import Recall

__all__ = ["RENEW_EVERY", "LeaseKeeper"]

logger = logging.getLogger("taskmq.worker")

RENEW_EVERY = 1 / 20
"""Of a lease: how often to look for leases that want renewal."""
RENEW_AT = 1 / 3 - RENEW_EVERY
"""Of a lease: how much must be used up. No lease gets older than a third while this process gets
to run, so that it may be held up for two thirds of a lease at any moment."""


class LeaseKeeper:
    """Knows what is held, and renews it from a thread that no task can hold up.

    ``running`` are the contexts of what runs now, by job id: a task whose lease is lost or whose
    job was revoked finds ``context.cancelled`` true (and ``context.lease_lost``, if it is that).
    ``recall`` is called, in the keeper's thread, with such deliveries and why each must not start
    any more, so that those that have not started never do. ``terminate``, where there is one, ends
    a running job by its id.
    """

    def __init__(
        self,
        transport: Reserver,
        *,
        lease: float,
        clock: Clock,
        running: Mapping[str, RunningJob],
        recall: Callable[[Sequence[tuple[Delivery, Recall]]], None],
        terminate: Callable[[str], None] | None = None,
    ) -> None:
        self._transport = transport
        self._lease = lease
        self._clock = clock
        self._running = running
        self._recall = recall
        self._terminate = terminate
        # By identity: hashing a delivery costs more, and two of one job may be held at once.
        self._held: dict[int, Delivery] = {}
        self.recalls: dict[int, tuple[Delivery, Recall]] = {}
        """What must not start any more, and why: held, or was until it was lost."""
        self._checked: dict[int, Delivery] = {}  # what was held at the last check
        self._lock = threading.Lock()
        self._failing = False

    def hold(self, deliveries: Iterable[Delivery]) -> None:
        """Keep these from now on."""
        with self._lock:
            self._held.update({id(delivery): delivery for delivery in deliveries})

    def let_go(self, settlements: Iterable[Settlement]) -> None:
        """Keep these no longer. To be called before they are settled: a renewal that comes too
        late for one is then known to be no loss."""
        with self._lock:
            gone = [id(settlement.delivery) for settlement in settlements]
            for key in gone:
                self._held.pop(key, None)
            if self.recalls:
                for key in gone:
                    self.recalls.pop(key, None)

    def recalled(self, delivery: Delivery) -> Recall | None:
        """Why it must not start any more, if that is so."""
        found = self.recalls.get(id(delivery))
        return None if found is None else found[1]

    def recall_unstarted(self, is_paused: Callable[[Delivery], bool]) -> None:
        """Recall what is held, is paused, and does not run."""
        with self._lock:
            recalled = [
                (delivery, Recall.PAUSED)
                for key, delivery in self._held.items()
                if key not in self.recalls
                and self._context(delivery) is None
                and is_paused(delivery)
            ]
        self._call_back(recalled)

    def __len__(self) -> int:
        return len(self._held)

    def held(self) -> list[Delivery]:
        """Everything that is kept, started or not, oldest first."""
        with self._lock:
            return list(self._held.values())

    def renew(self) -> None:
        """Extend what has used up a good part of its lease. To be called every `RENEW_EVERY`."""
        young = self._clock.now() + self._lease * (1 - RENEW_AT)
        with self._lock:
            due = [d for d in self._held.values() if d.lease_until <= young]
        if not due:
            return
        try:
            statuses = self._transport.extend(due, self._lease)
        except TransportError as error:
            if not self._failing:
                logger.warning("cannot renew %d leases, trying again: %s", len(due), error)
            self._failing = True
            return
        self._failing = False
        if any(status is not LeaseStatus.HELD for status in statuses):
            self._part_with(zip(due, statuses, strict=True))

    def check(self) -> None:
        """Find out what was revoked, or lost, of what is held for some time: since the last call.

        A renewal finds out as well, but comes late: a job that was revoked should stop within a
        second. Short jobs, however many, cost nothing here."""
        before = self._checked
        with self._lock:
            self._checked = dict(self._held)
        lasting = [d for key, d in self._checked.items() if before.get(key) is d]
        suspects = [d for d in lasting if not self._knows(d)]
        if not suspects:
            return
        try:
            statuses = self._transport.check(suspects)
        except TransportError as error:
            logger.debug("cannot look after %d deliveries: %s", len(suspects), error)
            return
        self._part_with(zip(suspects, statuses, strict=True))

    def _knows(self, delivery: Delivery) -> bool:
        """Whether there is nothing more that its task could be told, or be made to do."""
        context = self._context(delivery)
        if context is None or not context.cancelled:
            return False
        return self._terminate is None or context.lease_lost

    def extend(self, delivery: Delivery) -> bool:
        """Renew one lease, for a task that asks; false if it is lost."""
        try:
            status = self._transport.extend([delivery], self._lease)[0]
        except TransportError as error:
            logger.warning("cannot renew the lease of job %s: %s", delivery.job_id, error)
            return True  # not known to be lost
        if status is not LeaseStatus.HELD:
            self._part_with([(delivery, status)])
        return status is not LeaseStatus.LOST

    def _part_with(self, statuses: Iterable[tuple[Delivery, LeaseStatus]]) -> None:
        recalled: list[tuple[Delivery, Recall]] = []
        told: list[RunningJob] = []
        for delivery, status in statuses:
            if status is LeaseStatus.HELD or not self._is_current(delivery, status):
                continue
            if status is LeaseStatus.TERMINATE_REQUESTED and self._terminate is not None:
                self._terminate(delivery.job_id)
            lost = status is LeaseStatus.LOST
            context = self._context(delivery)
            if context is not None and context.cancelled and not lost:
                continue
            recalled.append((delivery, Recall.LOST if lost else Recall.REVOKED))
            if context is not None:
                context.lease_lost = context.lease_lost or lost
                told.append(context)
            if lost:
                logger.warning("lost the lease of job %s (%s)", delivery.job_id, _progress(context))
        self._call_back(recalled)
        for context in told:  # only now: whoever ends because of it must not make room for another
            context.cancelled = True

    def _call_back(self, recalled: Sequence[tuple[Delivery, Recall]]) -> None:
        if recalled:
            with self._lock:
                self.recalls.update((id(each[0]), each) for each in recalled)
            self._recall(recalled)

    def _context(self, delivery: Delivery) -> RunningJob | None:
        """Of this very delivery, if it runs."""
        context = self._running.get(delivery.job_id)
        return context if context is not None and context.delivery is delivery else None

    def _is_current(self, delivery: Delivery, status: LeaseStatus) -> bool:
        """Whether it is still held here; one that is lost is not from now on."""
        with self._lock:
            if status is LeaseStatus.LOST:
                return self._held.pop(id(delivery), None) is not None
            return id(delivery) in self._held


def _progress(context: RunningJob | None) -> str:
    if context is None:
        return "it had not started"
    return f"task {context.task} is running and was told"
