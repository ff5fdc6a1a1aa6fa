"""Compares what a store does with what the model says, and what workers do with what they may."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from taskmq.clock import Clock
from taskmq.errors import TransportError
from taskmq.records import JobFilter, JobRecord, QueueStats
from taskmq.states import TERMINAL, JobState
from taskmq.transport import (
    Delivery,
    Exchange,
    Reservation,
    Settlement,
    Transport,
)

from .job import UNSTARTED, Job
from .journal import Journal
from .model import Model
from .rules import Rule, Violation

__all__ = ["Observer", "Run"]


@dataclass(slots=True)
class Run:
    """What one worker does with one delivery. ``number`` counts the deliveries of all jobs."""

    number: int
    worker: str
    lease_until: float
    started: bool = False
    told_lost_in: int | None = None
    """The worker's round in which it was told that its lease is lost. It may start what is in its
    hands already, before it looks up; in the next round it has looked."""
    settled: set[type[Settlement]] = field(default_factory=set)
    ended: frozenset[type[Settlement]] | None = None
    """How it may be settled, once the task has come to its end."""


class Observer:
    """Everything that is known of one simulation, and everything that was wrong in it.

    Nothing here raises: workers and executors catch exceptions, and would hide the violation.
    """

    def __init__(self, clock: Clock, journal: Journal) -> None:
        self.clock = clock
        self.journal = journal
        self.model = Model()
        self.violations: list[Violation] = []
        self.runs: dict[tuple[str, int], Run] = {}
        self.latest = -math.inf
        """The latest that the clock has shown before it was set back. What had come due by then
        may count as due still: no store has to take that back."""
        self.rounds: Counter[str] = Counter()
        """How many rounds of its loop each worker has begun."""
        self._verified: dict[str, JobRecord] = {}
        self.started = 0
        self.stale_starts = 0
        """Runs that began after the lease had run out: allowed, and worth counting."""

    def complain(self, rule: Rule, text: str, job_id: str | None = None) -> None:
        about = f"job {job_id} {text}" if job_id else text
        violation = Violation(rule, self.journal.step, about, job_id)
        self.violations.append(violation)
        self.journal.add("!", f"{rule}: {about}")

    def expect(
        self, operation: str, found: object, expected: object, rule: Rule = "answer"
    ) -> None:
        if found != expected:
            self.complain(rule, f"{operation} answered {found}, not {expected}")

    def name(self, delivery: Delivery) -> str:
        """A delivery in the journal. Tokens are the store's business, and may be random."""
        run = self.runs.get((delivery.job_id, delivery.token))
        return f"{delivery.job_id} #{run.number if run else '?'}"

    # -- the store's side ----------------------------------------------------------------------

    def exchanged(
        self, settlements: Sequence[Settlement], wanted: Reservation | None, answer: Exchange
    ) -> None:
        now = self.clock.now()
        self.settled(settlements, list(answer.settled))
        if wanted is None:
            self.expect("an exchange that reserves nothing", len(answer.deliveries), 0)
            return
        queues = wanted.queues
        dropped = sorted((each.job_id, each.reason) for each in answer.dropped)
        expected = sorted((each.job_id, each.reason) for each in self.model.tidy(queues, now))
        self.expect("exchange (dropped)", dropped, expected)
        self._delivered(wanted, answer.deliveries)
        if self._is_unclear(queues):
            return
        ready = self.model.ready(queues, now)
        top = max((job.envelope.priority for job in ready), default=None)
        self.expect("exchange (waiting_priority)", answer.waiting_priority, top)
        due = self.model.next_due_at(queues, now)
        if not _same_instant(answer.next_due_at, due):
            self.complain("due", f"next_due_at is {answer.next_due_at}, not {due}")

    def _is_unclear(self, queues: Collection[str]) -> bool:
        """Whether some job was due before the clock was set back."""
        now, jobs = self.clock.now(), self.model.ready(queues, self.latest)
        return any(job.visible_at > now for job in jobs)

    def settled(self, settlements: Sequence[Settlement], answers: Sequence[object]) -> None:
        now = self.clock.now()
        expected = [self.model.settle(settlement, now) for settlement in settlements]
        if list(answers) != expected:
            named = [(each.delivery.job_id, type(each).__name__) for each in settlements]
            self.complain("settled", f"settling {named} gave {answers}, not {expected}")
        for settlement in settlements:
            self._settled_once(settlement)

    def _settled_once(self, settlement: Settlement) -> None:
        delivery = settlement.delivery
        run = self.runs.get((delivery.job_id, delivery.token))
        if run is not None:
            run.settled.add(type(settlement))
            if len(run.settled) > 1:
                kinds = sorted(kind.__name__ for kind in run.settled)
                self.complain("run", f"was settled as {' and '.join(kinds)}", delivery.job_id)
            if run.ended is not None and type(settlement) not in run.ended:
                kind = type(settlement).__name__
                self.complain("run", f"was settled as {kind}, after another end", delivery.job_id)

    def _delivered(self, wanted: Reservation, deliveries: Sequence[Delivery]) -> None:
        now = self.clock.now()
        if len(deliveries) > wanted.limit:
            self.complain("answer", f"{len(deliveries)} deliveries where {wanted.limit} were asked")
        for delivery in deliveries:
            if not self._may_deliver(wanted, delivery):
                return
            lease_until = now + wanted.lease
            self.model.deliver(delivery, wanted.worker, lease_until, now)
            run = Run(len(self.runs) + 1, wanted.worker, lease_until)
            self.runs[delivery.job_id, delivery.token] = run
            for rule, text in self.model.jobs[delivery.job_id].misdescribed(delivery):
                self.complain(rule, text, delivery.job_id)
        left = self.model.ready(wanted.queues, now)
        if left and len(deliveries) < wanted.limit:
            names = ", ".join(job.id for job in left)
            self.complain("due", f"{len(left)} ready jobs were not delivered: {names}")

    def _may_deliver(self, wanted: Reservation, delivery: Delivery) -> bool:
        job = self.model.jobs.get(delivery.job_id)
        problem = self._why_not(job, wanted, delivery)
        if problem is not None:
            rule, text = problem
            self.complain(rule, f"was delivered to {wanted.worker} {text}", delivery.job_id)
        return problem is None

    def _why_not(
        self, job: Job | None, wanted: Reservation, delivery: Delivery
    ) -> tuple[Rule, str] | None:
        now = self.clock.now()
        if job is None:
            why = self.model.deleted.get(delivery.job_id)
            return "lost", f"though {f'{why} deleted it' if why else 'nobody enqueued it'}"
        if job.state is JobState.RUNNING:
            return "one-holder", f"while {job.worker} has it, until {job.lease_until}"
        if job.state in TERMINAL:
            return "settled", f"though it is {job.state}"
        if job.is_expired(now):
            return "expiry", f"at {now}, though it expired at {job.envelope.expires_at}"
        if job.state not in UNSTARTED:
            return "dependencies", f"while it is {job.state}"
        if job.visible_at > max(now, self.latest):
            return "due", f"{job.visible_at - now:g} s early"
        if job.envelope.queue not in wanted.queues:
            return "answer", f"which does not work on queue {job.envelope.queue}"
        if delivery.token in job.tokens:
            return "one-holder", "with the token of an earlier delivery"
        return self._before_its_turn(job, wanted)

    def _before_its_turn(self, job: Job, wanted: Reservation) -> tuple[Rule, str] | None:
        for other in self.model.ready(wanted.queues, self.clock.now()):
            if other.envelope.priority > job.envelope.priority:
                mine, its = job.envelope.priority, other.envelope.priority
                return "priority", f"with priority {mine} before {other.id} with {its}"
            its_place = (other.envelope.queue, other.envelope.priority)
            in_line = (job.envelope.queue, job.envelope.priority) == its_place
            if in_line and other.sequence < job.sequence:
                return "fifo", f"before {other.id}, which was enqueued earlier"
        return None

    # -- the worker's side ---------------------------------------------------------------------

    def begins(self, worker: str, delivery: Delivery) -> None:
        """A worker starts to run a delivery."""
        now = self.clock.now()
        run = self.runs.get((delivery.job_id, delivery.token))
        job = self.model.jobs.get(delivery.job_id)
        self.started += 1
        if run is None or run.worker != worker:
            self.complain("run", f"was started by {worker}, which never got it", delivery.job_id)
            return
        if run.started:
            self.complain("run", f"was started twice by {worker}", delivery.job_id)
        if run.told_lost_in is not None and run.told_lost_in < self.rounds[worker]:
            self.complain("run", f"was started by {worker}, which knew it lost", delivery.job_id)
        if run.settled:
            self.complain("run", f"was started by {worker} after its settlement", delivery.job_id)
        run.started = True
        current = job is not None and job.token == delivery.token
        if current and job is not None and job.is_expired(now):
            self.complain("expiry", f"was started by {worker} after its expiry", delivery.job_id)
        self.stale_starts += not (current and job is not None and job.is_held(now))

    def ends(self, delivery: Delivery, *kinds: type[Settlement]) -> None:
        """The task of a delivery has come to an end, which may be settled in these ways."""
        run = self.runs.get((delivery.job_id, delivery.token))
        if run is not None:
            run.ended = frozenset(kinds)

    def lost(self, deliveries: Collection[Delivery]) -> None:
        """Their worker was told that it lost these leases."""
        for delivery in deliveries:
            run = self.runs.get((delivery.job_id, delivery.token))
            if run is not None:
                run.told_lost_in = self.rounds[run.worker]

    # -- what is stored ------------------------------------------------------------------------

    def verify(self, store: Transport) -> None:
        """Every job is stored as it should be."""
        jobs = self.model.jobs
        for job, record in zip(jobs.values(), store.get(list(jobs)), strict=True):
            if record is None:
                self.complain("lost", f"({job.state}) is gone", job.id)
            elif job.changed or record != self._verified.get(job.id):
                job.changed = False
                self._verified[job.id] = record
                for rule, text in job.differences(record):
                    self.complain(rule, text, job.id)

    def verify_reports(self, store: Transport, queues: Sequence[str]) -> None:
        """Nothing else is stored, and the queues and workers are reported as they are."""
        now = self.clock.now()
        found = [record.id for record in store.find(JobFilter(limit=100_000))]
        if found != list(self.model.jobs):
            self.complain("lost", f"find lists {found}, not {list(self.model.jobs)}")
        for stats in store.stats(queues):
            if not self._is_unclear({stats.queue}):
                self.expect("stats", stats, self._stats(stats.queue, now))
        workers = [worker.id for worker in store.workers()]
        self.expect("workers", workers, sorted(self.model.workers))

    def _stats(self, queue: str, now: float) -> QueueStats:
        jobs = [job for job in self.model.jobs.values() if job.envelope.queue == queue]
        ready = [job for job in jobs if job.is_ready(now)]
        delayed = [job for job in jobs if job.state in UNSTARTED and not job.is_ready(now)]
        by_priority: dict[int, int] = {}
        for job in ready:
            by_priority[job.envelope.priority] = by_priority.get(job.envelope.priority, 0) + 1
        return QueueStats(
            queue=queue,
            ready=len(ready),
            delayed=len(delayed),
            running=sum(job.state is JobState.RUNNING for job in jobs),
            waiting=sum(job.state is JobState.WAITING for job in jobs),
            parked=sum(job.parked_at is not None for job in delayed),
            dead=sum(job.state is JobState.FAILED for job in jobs),
            oldest_ready_at=min((job.visible_at for job in ready), default=None),
            ready_by_priority=by_priority,
        )

    def verify_ended(self) -> None:
        """Every job came to an end."""
        for job in self.model.jobs.values():
            if job.state not in TERMINAL:
                self.complain("drain", f"is still {job.state}", job.id)

    def failed(self, operation: str, error: Exception) -> None:
        """The store raised something that nobody provoked."""
        kind = "refused" if isinstance(error, TransportError) else "broke down in"
        self.complain("error", f"the store {kind} {operation}: {type(error).__name__}: {error}")


def _same_instant(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=0, abs_tol=1e-6)
