"""Compares what a store does with what the model says."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Sequence

from taskmq.clock import Clock
from taskmq.records import Dropped
from taskmq.states import TERMINAL
from taskmq.transport import Delivery, Exchange, Reservation, Settlement

from .findings import Findings
from .job import UNSTARTED, Job
from .journal import Journal
from .ledger import Ledger
from .model import Model
from .rules import Rule

__all__ = ["Observer", "open_queues_of"]


class Observer:
    """Everything that is known of one simulation."""

    def __init__(self, clock: Clock, journal: Journal) -> None:
        self.clock = clock
        self.journal = journal
        self.model = Model()
        self.findings = Findings(journal)
        self.ledger = Ledger(clock, self.model, self.findings)
        self.latest = -math.inf
        """The latest that the clock has shown before it was set back. What had come due by then
        may count as due still: no store has to take that back."""

    def expect(
        self, operation: str, found: object, expected: object, rule: Rule = "answer"
    ) -> None:
        self.findings.expect(operation, found, expected, rule)

    def is_unclear(self, queues: Collection[str]) -> bool:
        """Whether some job was due before the clock was set back."""
        now = self.clock.now()
        if self.latest <= now:
            return False
        return any(
            now < job.visible_at <= self.latest
            for job in self.model.jobs.values()
            if job.state in UNSTARTED and job.envelope.queue in queues
        )

    def certain(self, dropped: Sequence[Dropped]) -> list[tuple[str, str]]:
        """What has to be told of jobs that left, in order: not of one whose lease had ended in the
        step in which others of its workflow failed, which may have been revoked after that."""
        told = [each for each in dropped if each.job_id not in self.model.unwanted]
        return sorted((each.job_id, each.reason) for each in told)

    # -- an exchange ---------------------------------------------------------------------------

    def exchanged(
        self, settlements: Sequence[Settlement], wanted: Reservation | None, answer: Exchange
    ) -> None:
        now = self.clock.now()
        self._settled(settlements, list(answer.settled))
        if wanted is None:
            self.expect("an exchange that reserves nothing", len(answer.deliveries), 0)
            return
        ended = self.model.tidy(wanted.queues, now, answer.dropped)
        self.expect("exchange (dropped)", self.certain(answer.dropped), self.certain(ended))
        self._delivered(wanted, answer.deliveries)
        if not self.is_unclear(wanted.queues):
            self._outlook(wanted, answer)

    def _settled(self, settlements: Sequence[Settlement], answers: Sequence[object]) -> None:
        now = self.clock.now()
        expected = [self.model.settle(settlement, now) for settlement in settlements]
        if list(answers) != expected:
            named = [(each.delivery.job_id, type(each).__name__) for each in settlements]
            text = f"settling {named} gave {answers}, not {expected}"
            self.findings.complain("settled", text)
        for settlement in settlements:
            self.ledger.settled(settlement)

    def _delivered(self, wanted: Reservation, deliveries: Sequence[Delivery]) -> None:
        now = self.clock.now()
        if len(deliveries) > wanted.limit:
            text = f"{len(deliveries)} deliveries where {wanted.limit} were asked"
            self.findings.complain("answer", text)
        taken: Counter[str] = Counter()
        for delivery in deliveries:
            problem = self._why_not(wanted, delivery, taken)
            if problem is not None:
                rule, text = problem
                about = f"was delivered to {wanted.worker} {text}"
                self.findings.complain(rule, about, delivery.job_id)
                return
            taken[delivery.queue] += 1
            self.model.deliver(delivery, wanted.worker, now + wanted.lease, now)
            self.ledger.delivered(delivery, wanted.worker)
            for rule, text in self.model.jobs[delivery.job_id].misdescribed(delivery):
                self.findings.complain(rule, text, delivery.job_id)
        left = self.model.ready(open_queues_of(wanted, taken), now)
        if left and len(deliveries) < wanted.limit:
            names = ", ".join(job.id for job in left)
            text = f"{len(left)} ready jobs were not delivered: {names}"
            self.findings.complain("due", text, left[0].id)

    def _outlook(self, wanted: Reservation, answer: Exchange) -> None:
        """What the worker is told of what is left, and of what is to come."""
        now = self.clock.now()
        taken = Counter(delivery.queue for delivery in answer.deliveries)
        open_queues = open_queues_of(wanted, taken)
        top = _top(self.model.ready(open_queues, now))
        most = _top(self.model.waiting(open_queues, now))
        if answer.waiting_priority not in (top, most):
            # Between the two: a job that its limit keeps may still count as ready.
            told = answer.waiting_priority
            if told is None or most is None or (top is not None and told < top) or told > most:
                self.expect("exchange (waiting_priority)", told, top)
        told_due = answer.next_due_at
        due = self.model.next_due_at(wanted.queues, now)
        if self._has_limits(wanted.queues):
            # A gate is asked when a job is about to pass, so nothing is known of others.
            going = [queue for queue in open_queues if queue not in self.model.flow.paused]
            due = self.model.next_due_at(going, now)
            full = len(answer.deliveries) >= wanted.limit
            if due is not None and not full and (told_due is None or told_due > due + 1e-6):
                self.findings.complain("due", f"next_due_at is {told_due}, later than {due}")
        elif not _same_instant(told_due, due):
            self.findings.complain("due", f"next_due_at is {told_due}, not {due}")

    def _has_limits(self, queues: Collection[str]) -> bool:
        return any(
            job.envelope.limits and job.state in UNSTARTED and job.envelope.queue in queues
            for job in self.model.jobs.values()
        )

    # -- one delivery --------------------------------------------------------------------------

    def _why_not(
        self, wanted: Reservation, delivery: Delivery, taken: Counter[str]
    ) -> tuple[Rule, str] | None:
        job = self.model.jobs.get(delivery.job_id)
        if job is None:
            why = self.model.deleted.get(delivery.job_id)
            return "lost", f"though {f'{why} deleted it' if why else 'nobody enqueued it'}"
        problem = self._why_not_at_all(job)
        if problem is not None:
            return problem
        queue = job.envelope.queue
        if queue not in wanted.queues:
            return "answer", f"which does not work on queue {queue}"
        if taken[queue] >= wanted.quotas.get(queue, math.inf):
            return "answer", f"beyond the quota of queue {queue}"
        if delivery.token in job.tokens:
            return "one-holder", "with the token of an earlier delivery"
        return self._before_its_turn(job, open_queues_of(wanted, taken))

    def _why_not_at_all(self, job: Job) -> tuple[Rule, str] | None:
        now = self.clock.now()
        if job.is_running:
            return "one-holder", f"while {job.worker} has it, until {job.lease_until}"
        if job.state in TERMINAL:
            return "settled", f"though it is {job.state}"
        if job.is_expired(now):
            return "expiry", f"at {now}, though it expired at {job.envelope.expires_at}"
        if job.state not in UNSTARTED:
            return "dependencies", f"while it is {job.state}"
        if job.visible_at > max(now, self.latest):
            return "due", f"{job.visible_at - now:g} s early"
        if job.envelope.queue in self.model.flow.paused:
            return "pause", f"though queue {job.envelope.queue} is paused"
        limit = self.model.flow.refusing(job, now)
        if limit is not None:
            return "limit", f"beyond its {limit.kind} limit {limit.key}"
        return None

    def _before_its_turn(self, job: Job, queues: Collection[str]) -> tuple[Rule, str] | None:
        for other in self.model.ready(queues, self.clock.now()):
            problem = _overtakes(job, other)
            if problem is not None:
                return problem
        return None


def _overtakes(job: Job, other: Job) -> tuple[Rule, str] | None:
    """Whether a job is delivered although it is the turn of another."""
    if other.envelope.priority > job.envelope.priority:
        mine, its = job.envelope.priority, other.envelope.priority
        return "priority", f"with priority {mine} before {other.id} with {its}"
    if other.line == job.line and other.place < job.place:
        if other.turn is not None and other.turn.rank > 0:
            return "turn", f"before {other.id}, whose turn it is"
        return "fifo", f"before {other.id}, which was enqueued earlier"
    return None


def open_queues_of(wanted: Reservation, taken: Counter[str]) -> list[str]:
    """The queues whose quota is not used up."""
    quotas = wanted.quotas
    return [queue for queue in wanted.queues if taken[queue] < quotas.get(queue, math.inf)]


def _top(jobs: Sequence[Job]) -> int | None:
    return max((job.envelope.priority for job in jobs), default=None)


def _same_instant(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return math.isclose(one, other, rel_tol=0, abs_tol=1e-6)
