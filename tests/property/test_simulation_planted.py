"""The simulation finds bugs: each store and worker here has one, planted on purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec
import pytest

from taskmq.clock import Clock
from taskmq.envelope import Sealed
from taskmq.errors import Interrupted, JobCancelled
from taskmq.executor import Executor, Outcome
from taskmq.failures import describe
from taskmq.limits import Fair, Limit
from taskmq.pools.solo import SoloPool
from taskmq.records import Loss, MaintenanceReport, Reclaimed, WorkerRecord
from taskmq.states import JobState
from taskmq.testing.simulation import Report, simulate
from taskmq.testing.simulation.rules import Rule
from taskmq.testing.simulation.slots import ChildPool
from taskmq.transport import (
    Ack,
    DeadLetter,
    Delivery,
    Enqueued,
    Exchange,
    LeaseStatus,
    Release,
    Reservation,
    Settled,
    Settlement,
)
from taskmq.transports._fair import UNIT, Line, Turn, Turnstile
from taskmq.transports._gates import Gates, Lane
from taskmq.transports.memory import MemoryTransport, dependencies, endings
from taskmq.transports.memory.enqueue import MemoryRoom
from taskmq.transports.memory.gates import MemoryBooks
from taskmq.transports.memory.job import Job as StoredJob
from taskmq.transports.memory.listener import Signals
from taskmq.transports.memory.store import Store
from taskmq.verdicts import Verdicts
from taskmq.worker.fetcher import Fetcher
from taskmq.worker.inbox import Inbox
from taskmq.worker.lease import LeaseKeeper

T = TypeVar("T")

STEPS = 60


class AcksWithoutLooking(MemoryTransport):
    """Takes any acknowledgement of a running job, whoever it is from."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        return super().exchange([self._accept(each) for each in settlements], reservation)

    def _accept(self, settlement: Settlement) -> Settlement:
        job = self._store.jobs.get(settlement.delivery.job_id)
        if job is None or not isinstance(settlement, Ack):
            return settlement
        forged = msgspec.structs.replace(settlement.delivery, token=job.token)
        return msgspec.structs.replace(settlement, delivery=forged)


class ForgetsReclaimed(MemoryTransport):
    """Loses the second of two jobs whose leases ended at once."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        if reservation is not None:
            for queue in reservation.queues:
                for job_id in list(self._store.lanes[queue].leased.due(self._clock.now()))[1:]:
                    self._store.delete(self._store.jobs[job_id])
        return super().exchange(settlements, reservation)


class CountsTooLate(MemoryTransport):
    """Raises ``deliveries`` when the next exchange comes, not before the worker sees it."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        for job in self._store.jobs.values():
            if job.state is JobState.RUNNING and job.yields < 0:
                job.deliveries, job.yields = job.deliveries + 1, job.yields + 1000
        answer = super().exchange(settlements, reservation)
        for delivery in answer.deliveries:
            job = self._store.jobs[delivery.job_id]
            job.deliveries, job.yields = job.deliveries - 1, job.yields - 1000
        return answer


class ChargesForReleases(MemoryTransport):
    """Leaves a released delivery counted."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        before = {each.delivery.job_id: each for each in settlements if isinstance(each, Release)}
        answer = super().exchange(settlements)
        for job_id in before:
            job = self._store.jobs.get(job_id)
            if job is not None and job.state is JobState.QUEUED:
                job.deliveries += 1
        return _joined(answer, super().exchange((), reservation))


class IgnoresPriority(MemoryTransport):
    """Serves queues one after the other, each by priority."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        answer = super().exchange(settlements)
        if reservation is None:
            return answer
        for queue in reservation.queues:
            room = reservation.limit - len(answer.deliveries)
            part = msgspec.structs.replace(reservation, queues={queue: 1}, limit=room)
            answer = _joined(answer, super().exchange((), part))
        return answer


class NewestFirst(MemoryTransport):
    """A stack instead of a queue."""

    def enqueue(self, sealed: Sequence[Sealed]) -> list[Enqueued]:
        answers = super().enqueue(sealed)
        for job in self._store.jobs.values():
            job.sequence = -abs(job.sequence)
            lane = self._store.lanes[job.queue].ready.get(job.priority)
            if lane and job.id in lane:
                lane.put(job.id, job.sequence)
        return answers


class ReservesTwice(MemoryTransport):
    """Hands a job out again while somebody has it, once in a while."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        answer = super().exchange(settlements, reservation)
        running = [job for job in self._store.jobs.values() if job.state is JobState.RUNNING]
        if reservation is None or answer.deliveries or not running or not reservation.limit:
            return answer
        running[0].token = self._store.next_token()
        return msgspec.structs.replace(answer, deliveries=[running[0].delivery()])


class BuriesTheEvidence(MemoryTransport):
    """Dead letters without their payload."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        answer = super().exchange(settlements, reservation)
        for job in self._store.jobs.values():
            if job.state is JobState.FAILED:
                job.data = b""
        return answer


class NeverTooLate(MemoryTransport):
    """Does not mind when a job expires."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        for lanes in self._store.lanes.values():
            for job_id in list(lanes.expiring):
                lanes.expiring.discard(job_id)
        return super().exchange(settlements, reservation)


class ForgetsKeys(MemoryTransport):
    """Frees a key as soon as its job has ended."""

    def maintain(self, limit: int = 1000) -> MaintenanceReport:
        for job in self._store.jobs.values():
            if job.finished_at is not None:
                self._store.free_key(job)
        return super().maintain(limit)


class RevokesTheFinished(MemoryTransport):
    """Takes back a success."""

    def revoke(
        self, job_ids: Sequence[str], *, terminate: bool = False, by: str = ""
    ) -> list[bool]:
        for job_id in job_ids:
            job = self._store.jobs.get(job_id)
            if job is not None and job.state is JobState.SUCCEEDED:
                job.state = JobState.REVOKED
        return super().revoke(job_ids, terminate=terminate, by=by)


class RenewsAnything(MemoryTransport):
    """Says that a lease is held which is another's by now."""

    def extend(self, deliveries: Sequence[Delivery], lease: float) -> list[LeaseStatus]:
        super().extend(deliveries, lease)
        return [LeaseStatus.HELD for _ in deliveries]


class StrandsDependents(MemoryTransport):
    """Does not skip what waits for a job that died."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        waiting = [job for job in self._store.jobs.values() if job.state is JobState.WAITING]
        answer = super().exchange(settlements, reservation)
        for job in waiting:
            if job.state is JobState.SKIPPED:
                job.state = JobState.WAITING
        return answer


class AcksBeforeCommit(MemoryTransport):
    """Says that a success is stored, and stores it with the next exchange."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(clock)
        self._later: list[Settlement] = []

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        super().exchange(self._later)
        self._later = [each for each in settlements if isinstance(each, Ack)]
        others = [each for each in settlements if each not in self._later]
        answer = super().exchange(others, reservation)
        rest = iter(answer.settled)
        settled = [Settled.DONE if each in self._later else next(rest) for each in settlements]
        return msgspec.structs.replace(answer, settled=settled)


class LosesTheResult(MemoryTransport):
    """Acknowledges first, and stores the result in another step, which a crash prevents."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        bare = [
            msgspec.structs.replace(each, result=None) if isinstance(each, Ack) else each
            for each in settlements
        ]
        return super().exchange(bare, reservation)


class IgnoresPauses(MemoryTransport):
    """Remembers a pause, and delivers all the same."""

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        paused, self._store.paused = self._store.paused, {}
        answer = super().exchange(settlements, reservation)
        self._store.paused = paused
        return answer


class ResumesInSilence(MemoryTransport):
    """Wakes nobody at the end of a pause."""

    def resume(self, queue: str) -> bool:
        return self._store.paused.pop(queue, None) is not None


class TakesFromTheSuccessor(MemoryTransport):
    """Does not look whether the worker that is gone is the one that has the name now."""

    def reclaim(self, worker: WorkerRecord) -> Reclaimed:
        entry = self._store.workers.get(worker.id)
        return super().reclaim(entry or worker)


def _joined(first: Exchange, second: Exchange) -> Exchange:
    return Exchange(
        settled=first.settled,
        deliveries=[*first.deliveries, *second.deliveries],
        dropped=[*first.dropped, *second.dropped],
        next_due_at=min(_known(first.next_due_at, second.next_due_at), default=None),
        waiting_priority=max(_known(first.waiting_priority, second.waiting_priority), default=None),
    )


def _known(*values: T | None) -> list[T]:
    return [value for value in values if value is not None]


STORES: list[tuple[type[MemoryTransport], set[Rule], int | range]] = [
    (AcksWithoutLooking, {"settled"}, 300),
    (AcksBeforeCommit, {"state", "due", "answer"}, 20),
    (LosesTheResult, {"answer", "dependencies"}, 20),
    (ForgetsReclaimed, {"lost", "answer", "settled"}, 300),
    (CountsTooLate, {"counters"}, 20),
    (ChargesForReleases, {"counters"}, 300),
    (IgnoresPriority, {"priority"}, 60),
    (NewestFirst, {"fifo", "turn", "state"}, 60),
    (ReservesTwice, {"one-holder"}, 60),
    (BuriesTheEvidence, {"dead-letter", "answer"}, 60),
    (NeverTooLate, {"expiry", "answer", "state"}, 60),
    (ForgetsKeys, {"key", "answer"}, 200),
    (RevokesTheFinished, {"state"}, 300),
    (RenewsAnything, {"answer"}, 300),
    (StrandsDependents, {"state"}, 100),
    (IgnoresPauses, {"pause"}, 100),
    (ResumesInSilence, {"wake"}, range(590, 600)),
    (TakesFromTheSuccessor, {"answer"}, range(460, 470)),
]


def first_report(store: type[MemoryTransport] | str, seeds: int | range) -> Report:
    """Of the first seed that finds something."""
    for seed in range(seeds) if isinstance(seeds, int) else seeds:
        report = simulate(seed, STEPS, store)
        if report.violations:
            return report
    pytest.fail(f"nothing found in {seeds} seeds, of {STEPS} steps")


@pytest.mark.parametrize(
    ("store", "rules", "seeds"), STORES, ids=[store.__name__ for store, _, _ in STORES]
)
def test_a_store_with_a_bug_is_found_out(
    store: type[MemoryTransport], rules: set[Rule], seeds: int | range
) -> None:
    report = first_report(store, seeds)
    assert report.violations[0].rule in rules, report


# -- bugs inside a store, or a worker --------------------------------------------------------------

Patch = pytest.MonkeyPatch


def one_more_at_once(patch: Patch) -> None:
    room = Gates._room
    patch.setattr(Gates, "_room", lambda gates, limit: room(gates, limit) + _concurrent(limit))


def _concurrent(limit: Limit) -> int:
    return int(limit.kind == "concurrency")


def a_rate_without_memory(patch: Patch) -> None:
    patch.setattr(Gates, "_remember", lambda gates, gate, until: None)


def nobody_follows_who_leaves(patch: Patch) -> None:
    patch.setattr(Gates, "leave", lambda gates, limits, queue, priority: None)


def nobody_presses_on(patch: Patch) -> None:
    patch.setattr(Gates, "pressing", False)


def anybody_represents(patch: Patch) -> None:
    def count(books: MemoryBooks, lane: Lane) -> int:
        return len(books._index.representatives.get(lane, ()))

    patch.setattr(MemoryBooks, "representatives", count)


def first_come_first_served(patch: Patch) -> None:
    enter = Turnstile.enter

    def late(stile: Turnstile, line: Line, fair: Fair | None) -> Turn | None:
        turn = enter(stile, line, fair)
        return None if turn is None else turn._replace(rank=UNIT)

    patch.setattr(Turnstile, "enter", late)


def weights_are_ignored(patch: Patch) -> None:
    enter = Turnstile.enter

    def equal(stile: Turnstile, line: Line, fair: Fair | None) -> Turn | None:
        return enter(stile, line, fair and Fair(fair.key))

    patch.setattr(Turnstile, "enter", equal)


def room_for_one_more(patch: Patch) -> None:
    depths = MemoryRoom.depths

    def shallow(room: MemoryRoom, queue: str) -> tuple[int, int]:
        ready, others = depths(room, queue)
        return max(0, ready - 1), others

    patch.setattr(MemoryRoom, "depths", shallow)


def the_newest_has_to_go(patch: Patch) -> None:
    def newest(room: MemoryRoom, queue: str, count: int) -> list[StoredJob]:
        lines = room._store.lanes[queue].ready
        ids = [job_id for priority in sorted(lines) for job_id in reversed(list(lines[priority]))]
        return [room._store.jobs[job_id] for job_id in ids[:count]]

    patch.setattr(MemoryRoom, "_lowest", newest)


def enqueue_wakes_nobody(patch: Patch) -> None:
    patch.setattr(Signals, "queue_changed", lambda signals, name: None)


# -- bugs in workflows -----------------------------------------------------------------------------


def conditions_hold_for_nobody(patch: Patch) -> None:
    patch.setattr(dependencies, "_has_lost", lambda job: True)


def losses_have_no_story(patch: Patch) -> None:
    patch.setattr(dependencies, "_loss", lambda job: Loss(state="UNKNOWN"))


def failing_fast_stops_nobody(patch: Patch) -> None:
    patch.setattr(endings, "_end_workflow", lambda store, workflow, now: None)


def nobody_waits_for_the_spawned(patch: Patch) -> None:
    patch.setattr(dependencies, "join", lambda store, job, spawned, now: None)


def who_delegates_expires(patch: Patch) -> None:
    delegate = dependencies.delegate

    def forgetful(store: Store, job: StoredJob, to: str, now: float) -> None:
        expires_at = job.expires_at
        delegate(store, job, to, now)
        job.expires_at = expires_at

    patch.setattr(dependencies, "delegate", forgetful)


# -- bugs in a worker ------------------------------------------------------------------------------


def a_delivery_runs_twice(patch: Patch) -> None:
    submit = SoloPool.submit
    patch.setattr(SoloPool, "submit", lambda pool, each: submit(pool, [*each, *each[:1]]))


def a_kill_settles_twice(patch: Patch) -> None:
    conclude = Executor.conclude

    def twice(
        executor: Executor, delivery: Delivery, cause: Interrupted | JobCancelled, runtime: float
    ) -> Outcome:
        pools[0]._done(Outcome(Ack(delivery)))  # of the child, which had just finished
        return conclude(executor, delivery, cause, runtime)

    pools: list[ChildPool] = []
    go_on = ChildPool.go_on

    def watched(pool: ChildPool, number: int) -> None:
        pools[:] = [pool]
        go_on(pool, number)

    patch.setattr(ChildPool, "go_on", watched)
    patch.setattr(Executor, "conclude", twice)


def a_lost_child_is_a_failure(patch: Patch) -> None:
    patch.setattr(Verdicts, "on_loss", lambda verdicts, *rest: _as_failure(*rest))


def _as_failure(
    error: BaseException, delivery: Delivery, *_: object
) -> tuple[Settlement, JobState]:
    return DeadLetter(delivery, "error", describe(error)), JobState.FAILED


def lost_leases_are_ignored(patch: Patch) -> None:
    patch.setattr(Inbox, "recall", lambda inbox, deliveries: None)
    patch.setattr(LeaseKeeper, "recalled", lambda keeper, delivery: None)


def outcomes_are_forgotten(patch: Patch) -> None:
    """It would renew the lease for ever of a job whose outcome it has dropped."""
    patch.setattr(LeaseKeeper, "let_go", lambda keeper, settlements: None)
    patch.setattr(Fetcher, "_keep", lambda fetcher, settlements: None)


def acknowledged_before_it_ran(patch: Patch) -> None:
    submit = SoloPool.submit

    def early(pool: SoloPool, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            pool._done(Outcome(Ack(delivery)))
        submit(pool, deliveries)

    patch.setattr(SoloPool, "submit", early)


PLANTS: list[tuple[Callable[[Patch], None], set[Rule], int | range]] = [
    (one_more_at_once, {"limit"}, 100),
    (a_rate_without_memory, {"limit"}, 100),
    (nobody_follows_who_leaves, {"due", "answer", "wake", "drain", "fifo", "priority"}, 100),
    (nobody_presses_on, {"fifo", "priority", "turn"}, 300),
    (anybody_represents, {"fifo", "turn"}, 300),
    (first_come_first_served, {"turn"}, 100),
    (weights_are_ignored, {"turn"}, 300),
    (room_for_one_more, {"room", "state"}, 60),
    (the_newest_has_to_go, {"state"}, 100),
    (enqueue_wakes_nobody, {"wake"}, 100),
    (conditions_hold_for_nobody, {"state", "settled", "due"}, 300),
    (losses_have_no_story, {"dependencies"}, 300),
    (failing_fast_stops_nobody, {"state", "answer", "due"}, 100),
    (nobody_waits_for_the_spawned, {"state", "answer", "dependencies"}, 300),
    (who_delegates_expires, {"state", "answer"}, 300),
    (a_delivery_runs_twice, {"run", "lease"}, 20),
    (a_kill_settles_twice, {"run", "lease"}, 200),
    (a_lost_child_is_a_failure, {"run"}, 300),
    (lost_leases_are_ignored, {"run"}, 300),
    (outcomes_are_forgotten, {"lease"}, 100),
    (acknowledged_before_it_ran, {"run", "lease"}, 20),
]


@pytest.mark.parametrize(
    ("plant", "rules", "seeds"), PLANTS, ids=[plant.__name__ for plant, _, _ in PLANTS]
)
def test_a_planted_bug_is_found_out(
    plant: Callable[[Patch], None], rules: set[Rule], seeds: int | range, monkeypatch: Patch
) -> None:
    plant(monkeypatch)
    report = first_report("memory", seeds)
    assert report.violations[0].rule in rules, report
