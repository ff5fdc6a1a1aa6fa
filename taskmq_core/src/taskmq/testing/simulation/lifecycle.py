"""What can happen to one job of the model, and what that means for the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from taskmq.codec import Payload
from taskmq.envelope import Sealed
from taskmq.records import Failure
from taskmq.states import TERMINAL, Event, JobState
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    Delegate,
    Expire,
    Nack,
    Release,
    RetryLater,
    Revoke,
    Settled,
    Settlement,
)

from .flow import Flow
from .graph import Graph
from .job import Edge, Job

__all__ = ["Lifecycle"]

BY_WORKFLOW = "workflow"


class Lifecycle:
    """The jobs, and every step from a delivery to an end."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.deleted: dict[str, str] = {}
        """Ids that were stored once, and what deleted them."""
        self.unwanted: set[str] = set()
        """Ids of jobs whose workflow has failed fast."""
        self.flow = Flow(self.jobs)
        self._graph = Graph(self.jobs, self._succeed)
        self._sequence = 0

    # -- the ways in which it begins -----------------------------------------------------------

    def _add(self, batch: Collection[Sealed], now: float) -> list[Job]:
        """Store new jobs."""
        added = [self._new(sealed, now) for sealed in batch]
        for job in added:
            self.deleted.pop(job.id, None)
            self.flow.enter(job)
            self.jobs[job.id] = job
        self._graph.link(added, now)
        return added

    def _new(self, sealed: Sealed, now: float) -> Job:
        envelope = sealed.envelope
        self._sequence += 1
        return Job(
            sequence=self._sequence,
            id=envelope.id,
            sealed=sealed,
            state=JobState.WAITING if envelope.after else JobState.QUEUED,
            visible_at=max(now, envelope.eta or now),
            eta=envelope.eta,
            edges={dependency.job: Edge() for dependency in envelope.after},
            run_if=envelope.run_if,
        )

    # -- the ways in which a job ends ----------------------------------------------------------

    def _end(self, jobs: Iterable[Job], event: Event, now: float) -> None:
        """The same end for several: one that waits for another of them is not skipped."""
        ended = list(jobs)
        for job in ended:
            if event is not Event.DEAD and not job.is_running:
                self.flow.forfeit(job)
            job.move(event, now)
        for job in ended:
            self._graph.lose(job, now)
        if event in (Event.DEAD, Event.EXPIRE):
            for job in ended:
                if job.envelope.fail_fast and job.envelope.workflow is not None:
                    self._fail_fast(job.envelope.workflow, now)

    def _fail_fast(self, workflow: str, now: float) -> None:
        """The others of a workflow are not wanted any more, but for those that see to its end."""
        others = [
            job
            for job in self.jobs.values()
            if job.envelope.workflow == workflow and job.run_if == "succeeded"
        ]
        others = [job for job in others if job.state not in TERMINAL]
        for job in others:
            job.is_unwanted = True
            self.unwanted.add(job.id)
        self._stop(others, now, by=BY_WORKFLOW)

    def _stop(self, jobs: Iterable[Job], now: float, *, by: str, terminate: bool = False) -> None:
        """Somebody wants none of these to run."""
        stopped = list(jobs)
        for job in stopped:
            job.revoke_noted(by, now)
            job.cancel_requested = job.is_running
            job.terminate_requested = job.cancel_requested and (
                terminate or job.terminate_requested
            )
        self._end([job for job in stopped if not job.cancel_requested], Event.REVOKE, now)

    def _die(self, jobs: Iterable[Job], reason: str, now: float, failure: Failure | None) -> None:
        """Several at once, each for the reason for which it was parked if that is empty."""
        dead = list(jobs)
        for job in dead:
            job.note()
            job.dead_reason = reason or job.parked_reason or ""
            job.reported = job.reported or failure is not None
        self._end(dead, Event.DEAD, now)

    def _delete(self, job: Job, why: str, now: float) -> None:
        self._graph.lose(job, now)
        del self.jobs[job.id]
        self.deleted[job.id] = why

    # -- settling ------------------------------------------------------------------------------

    def settle(self, settlement: Settlement, now: float) -> Settled:
        job = self.jobs.get(settlement.delivery.job_id)
        kind = type(settlement)
        if job is None or job.token != settlement.delivery.token:
            return Settled.LEASE_LOST
        if not job.is_running:
            return Settled.REPEATED if job.settled_as is kind else Settled.LEASE_LOST
        job.settled_as = kind
        if not (isinstance(settlement, Defer) and settlement.park):
            job.unpark()
        _APPLY[kind](self, job, settlement, now)
        return Settled.DONE

    def _ack(self, job: Job, settlement: Ack, now: float) -> None:
        if settlement.spawn:
            self._graph.join(job, self._add(settlement.spawn, now), now)
        job.move(Event.ACK, now)
        self._succeed(job, settlement.result, now)

    def _succeed(self, job: Job, result: Payload | None, now: float) -> None:
        job.result = result
        job.reported = False
        self._graph.feed(job, result, now)
        if not job.kept:
            self._delete(job, "a success that keeps nothing", now)

    def _delegate(self, job: Job, settlement: Delegate, now: float) -> None:
        if job.cancel_requested:
            self._end([job], Event.REVOKE, now)
        else:
            self._add(settlement.jobs, now)
            self._graph.delegate(job, settlement.to, now)

    def _retry(self, job: Job, settlement: RetryLater, now: float) -> None:
        job.note()
        job.reported = True
        job.attempt += 1
        if settlement.envelope is not None:
            job.redirect(settlement.envelope)
        self._back(job, Event.RETRY, now, now + settlement.delay)

    def _nack(self, job: Job, settlement: Nack, now: float) -> None:
        self._lose(job, Event.NACK, now, now + settlement.delay)

    def _dead_letter(self, job: Job, settlement: DeadLetter, now: float) -> None:
        self._die([job], settlement.reason, now, settlement.failure)

    def _defer(self, job: Job, settlement: Defer, now: float) -> None:
        job.deliveries -= 1
        if settlement.park:
            job.parked_reason = settlement.park
            job.parked_at = now if job.parked_at is None else job.parked_at
            job.park_ttl = settlement.park_ttl or 0.0
        self._back(job, Event.DEFER, now, now + settlement.delay)

    def _release(self, job: Job, settlement: Release, now: float) -> None:
        job.deliveries -= 1
        job.yields += 1
        if not job.cancel_requested:
            self.flow.refund(job)
        self._back(job, Event.RELEASE, now, job.visible_at)

    def _expire(self, job: Job, settlement: Expire, now: float) -> None:
        self._end([job], Event.EXPIRE, now)

    def _revoke(self, job: Job, settlement: Revoke, now: float) -> None:
        self._end([job], Event.REVOKE, now)

    def _back(self, job: Job, event: Event, now: float, visible_at: float) -> None:
        if job.cancel_requested:
            self._end([job], Event.REVOKE, now)
        else:
            job.visible_at = visible_at
            job.move(event, now)

    def _lose(self, job: Job, event: Event, now: float, visible_at: float) -> None:
        """A delivery came to nothing."""
        job.reclaims += 1
        if job.cancel_requested:
            self._end([job], Event.REVOKE, now)
        elif job.envelope.ack == "on_receipt" or job.reclaims >= job.envelope.max_deliveries:
            self._die([job], "worker_lost", now, None)
        else:
            job.note()
            self._back(job, event, now, visible_at)

    def _take_back(self, jobs: Iterable[Job], now: float) -> None:
        for job in jobs:
            job.unpark()
            self._lose(job, Event.RECLAIM, now, min(now, job.lease_until or now))


_APPLY: dict[type[Settlement], Callable[[Lifecycle, Job, Any, float], None]] = {
    Ack: Lifecycle._ack,
    Delegate: Lifecycle._delegate,
    RetryLater: Lifecycle._retry,
    Nack: Lifecycle._nack,
    DeadLetter: Lifecycle._dead_letter,
    Defer: Lifecycle._defer,
    Release: Lifecycle._release,
    Expire: Lifecycle._expire,
    Revoke: Lifecycle._revoke,
}
