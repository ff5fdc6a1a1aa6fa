"""The simulation finds bugs: each store and worker here has one, planted on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec
import pytest

from taskmq.envelope import Sealed
from taskmq.pools.solo import SoloPool
from taskmq.records import MaintenanceReport
from taskmq.states import JobState
from taskmq.testing.simulation import Report, simulate
from taskmq.testing.simulation.rules import Rule
from taskmq.transport import (
    Ack,
    Delivery,
    Enqueued,
    Exchange,
    LeaseStatus,
    Release,
    Reservation,
    Settlement,
)
from taskmq.transports.memory import MemoryTransport
from taskmq.worker.fetcher import Fetcher
from taskmq.worker.inbox import Inbox
from taskmq.worker.lease import LeaseKeeper

T = TypeVar("T")

STEPS = 300


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


PLANTED: list[tuple[type[MemoryTransport], set[Rule], int]] = [
    (AcksWithoutLooking, {"settled"}, 20),
    (ForgetsReclaimed, {"lost", "answer", "settled"}, 20),
    (CountsTooLate, {"counters"}, 3),
    (ChargesForReleases, {"counters"}, 30),
    (IgnoresPriority, {"priority"}, 5),
    (NewestFirst, {"fifo"}, 5),
    (ReservesTwice, {"one-holder"}, 3),
    (BuriesTheEvidence, {"dead-letter", "answer"}, 5),
    (NeverTooLate, {"expiry", "answer", "state"}, 5),
    (ForgetsKeys, {"key", "answer"}, 10),
    (RevokesTheFinished, {"state"}, 60),
    (RenewsAnything, {"answer"}, 20),
    (StrandsDependents, {"state"}, 10),
]


def first_report(store: type[MemoryTransport] | str, seeds: int) -> Report:
    """Of the first seed that finds something."""
    for seed in range(seeds):
        report = simulate(seed, STEPS, store)
        if report.violations:
            return report
    pytest.fail(f"nothing found in {seeds} seeds of {STEPS} steps")


@pytest.mark.parametrize(
    ("store", "rules", "seeds"), PLANTED, ids=[store.__name__ for store, _, _ in PLANTED]
)
def test_a_store_with_a_bug_is_found_out(
    store: type[MemoryTransport], rules: set[Rule], seeds: int
) -> None:
    report = first_report(store, seeds)
    assert report.violations[0].rule in rules, report


def test_a_pool_that_runs_a_delivery_twice_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    submit = SoloPool.submit
    monkeypatch.setattr(SoloPool, "submit", lambda pool, each: submit(pool, [*each, *each[:1]]))
    assert first_report("memory", 3).violations[0].rule == "run"


def test_a_worker_that_ignores_lost_leases_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Inbox, "recall", lambda inbox, deliveries: None)
    monkeypatch.setattr(LeaseKeeper, "recalled", lambda keeper, delivery: None)
    assert first_report("memory", 150).violations[0].rule == "run"


def test_a_worker_that_forgets_what_it_could_not_tell_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would renew the lease for ever of a job whose outcome it has dropped."""
    monkeypatch.setattr(LeaseKeeper, "let_go", lambda keeper, settlements: None)
    monkeypatch.setattr(Fetcher, "_keep", lambda fetcher, settlements: None)
    assert first_report("memory", 30).violations[0].rule == "lease"
