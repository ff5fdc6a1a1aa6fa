"""The loop's decisions, round by round: the pool is the test's own hand, the clock stands still."""

import logging
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from taskmq import App, Call, Config, JobState
from taskmq.events import CollectingSink, JobDropped, JobReleased
from taskmq.executor import Outcome
from taskmq.pools import Done, Execute
from taskmq.pools.base import InProcess
from taskmq.testing import FakeClock
from taskmq.transport import MAX_YIELDS, Ack, Delivery, Release, Reservation, Revoke
from taskmq.worker.credit import Credit
from taskmq.worker.fetcher import Fetcher
from taskmq.worker.inbox import Inbox
from taskmq.worker.lease import LeaseKeeper
from taskmq.worker.lookout import Lookout
from taskmq.worker.loop import Loop, Parts
from taskmq.worker.pace import Pace
from taskmq.worker.recall import Recall
from taskmq.worker.throttle import Throttle

LEASE = 30.0


class HandPool(InProcess):
    """A pool whose slots the test moves."""

    runs_coroutines = False
    inline = False

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.waiting: deque[Delivery] = deque()
        self.running: list[Delivery] = []

    def start(self, execute: Execute, done: Done) -> None: ...

    def submit(self, deliveries: Sequence[Delivery]) -> None:
        self.waiting.extend(deliveries)

    def unstarted(self) -> int:
        return len(self.waiting)

    def withdraw(self) -> list[Delivery]:
        held = list(self.waiting)
        self.waiting.clear()
        return held

    def turn(self) -> None: ...

    def abort(self) -> list[Delivery]:
        return []

    def stop(self, timeout: float) -> bool:
        return True

    def begin(self) -> None:
        """Every free slot takes the next delivery."""
        while self.waiting and len(self.running) < self.slots:
            self.running.append(self.waiting.popleft())


class Bench:
    """A loop on a memory store, stepped by hand."""

    def __init__(self, *, slots: int, took: float | None = None) -> None:
        self.clock, self.time = FakeClock(), 100.0
        self.app = App(Config(transport="memory://"), clock=self.clock)
        self.task = self.app.task(name="noop")(lambda number: None)
        self.sink = CollectingSink()
        self.pool, self.inbox = HandPool(slots), Inbox()
        credit = Credit(slots, None)
        if took is not None:
            credit.observe(1, took)
        keeper = LeaseKeeper(
            self.app.transport,
            lease=LEASE,
            clock=self.clock,
            running={},
            recall=self.inbox.recall,
        )
        pace = Pace(monotonic=lambda: self.time)
        self.fetcher = Fetcher(
            self.app, worker="w", queues={"default": 1}, lease=LEASE, keeper=keeper, pace=pace
        )
        parts = Parts(
            pool=self.pool,
            inbox=self.inbox,
            credit=credit,
            fetcher=self.fetcher,
            lookout=Lookout(self.app.transport, ["default"], self.inbox.notice),
            running={},
            turn=self.pool.turn,
            throttle=Throttle(self.app.tasks, {}, self.clock),
            pace=pace,
        )
        self.loop = Loop(self.app, parts, worker="w", shutdown_timeout=5.0)

    def add(self, *priorities: int) -> list[Any]:
        """Jobs with these priorities; the worker is told of them."""
        calls: list[Call[Any]] = [
            self.task.call(number).options(priority=priority)
            for number, priority in enumerate(priorities)
        ]
        jobs = self.app.submit_many(calls)
        self.inbox.notice()
        return list(jobs)

    def finish(self, delivery: Delivery, runtime: float = 0.001) -> None:
        """A running delivery succeeds."""
        self.pool.running.remove(delivery)
        self.inbox.put(Outcome(Ack(delivery), runtime))

    def pass_time(self, seconds: float) -> None:
        self.time += seconds
        self.clock.advance(seconds)

    def waiting(self) -> list[int]:
        """Priorities of what is unstarted here, in order."""
        return [delivery.priority for delivery in self.pool.waiting]


def test_reserves_one_per_slot_at_first() -> None:
    bench = Bench(slots=3)
    bench.add(*[0] * 10)
    bench.loop.step()
    assert len(bench.pool.waiting) == bench.loop.in_pool == 3


def test_settles_and_reserves_in_one_exchange() -> None:
    bench = Bench(slots=1)
    jobs = bench.add(0, 0)
    bench.loop.step()
    bench.pool.begin()
    bench.finish(bench.pool.running[0], runtime=10.0)
    bench.loop.step()
    assert [job.state for job in jobs] == [JobState.SUCCEEDED, JobState.RUNNING]
    assert [delivery.job_id for delivery in bench.pool.waiting] == [jobs[1].id]


def test_urgent_deliveries_go_in_front_of_those_that_wait() -> None:
    bench = Bench(slots=1, took=0.002)
    bench.add(0, 0, 0)
    bench.loop.step()
    bench.add(5, 3)
    bench.loop.step()
    assert bench.waiting() == [5, 3, 0, 0, 0]


def test_less_urgent_deliveries_go_behind() -> None:
    bench = Bench(slots=1, took=0.002)
    bench.add(5)
    bench.loop.step()
    bench.add(0, 5)
    bench.loop.step()
    assert bench.waiting() == [5, 5, 0]


def fill(bench: Bench, priority: int) -> list[Any]:
    """As many jobs as the worker holds, reserved; the first one runs."""
    jobs = bench.add(*[priority] * 11)
    bench.loop.step()
    bench.pool.begin()
    assert bench.loop.in_pool == 11
    return jobs


def test_what_waits_gives_way_to_something_more_urgent_in_the_store() -> None:
    bench = Bench(slots=1, took=0.002)  # holds 1 + 10
    bench.app.add_sink(bench.sink)
    jobs = fill(bench, priority=0)
    bench.add(*[7] * 20)
    bench.finish(bench.pool.running[0], runtime=0.002)
    bench.loop.step()  # takes what there is room for, and hears that more is waiting
    assert bench.waiting() == [7]
    assert bench.loop.in_pool == 1
    bench.loop.step()
    assert bench.waiting() == [7] * 11
    assert {job.state for job in jobs[1:]} == {JobState.QUEUED}
    assert {job.info["deliveries"] for job in jobs[1:]} == {0}
    released = [event for event in bench.sink.events if isinstance(event, JobReleased)]
    assert {event.reason for event in released} == {"something more urgent waits"}
    assert {event.task for event in released} == {"noop"}


def test_what_was_released_often_enough_is_kept() -> None:
    bench = Bench(slots=1, took=0.002)
    fill(bench, priority=0)
    often = [msgspec.structs.replace(d, yields=MAX_YIELDS) for d in bench.pool.withdraw()]
    bench.pool.submit(often)
    bench.add(*[7] * 20)
    bench.finish(bench.pool.running[0], runtime=0.002)
    bench.loop.step()
    assert bench.waiting() == [7, *[0] * 10]
    assert bench.fetcher.unsent == []


def test_jobs_behind_one_that_turns_out_long_are_released() -> None:
    bench = Bench(slots=1, took=0.002)
    jobs = fill(bench, priority=0)
    bench.pass_time(0.039)
    bench.loop.step()
    assert len(bench.pool.waiting) == 10
    bench.pass_time(0.002)
    bench.loop.step()
    assert len(bench.pool.waiting) == 0
    assert {job.state for job in jobs[1:]} == {JobState.QUEUED}
    bench.inbox.notice()
    bench.loop.step()
    assert len(bench.pool.waiting) == 0, "a stuck slot takes nothing back"


def test_what_the_watchdog_gave_back_after_the_last_look_is_looked_for() -> None:
    bench = Bench(slots=1, took=0.002)
    jobs = fill(bench, priority=0)
    while bench.pool.running:
        bench.finish(bench.pool.running[0])
        bench.loop.step(until_idle=True)
    releases = [Release(delivery) for delivery in bench.pool.withdraw()]
    assert not bench.loop.step(until_idle=True)  # nothing else is there
    bench.app.transport.settle(releases)
    bench.inbox.give_back(releases)
    assert not bench.loop.step(until_idle=True)
    assert len(bench.pool.waiting) == len(releases) == len(jobs) - 1


@pytest.mark.parametrize("why", [Recall.LOST, Recall.PAUSED])
def test_recalled_deliveries_never_start(why: Recall) -> None:
    bench = Bench(slots=1, took=0.002)
    jobs = fill(bench, priority=0)
    bench.inbox.recall([(bench.pool.waiting[0], why), (bench.pool.running[0], why)])
    recalled, others = bench.pool.waiting[0], list(bench.pool.waiting)[1:]
    bench.loop._give_back()
    assert list(bench.pool.waiting) == others
    assert bench.fetcher.unsent == [Release(recalled)]
    assert bench.loop.in_pool == 10
    assert jobs[0].state == JobState.RUNNING


def test_what_is_revoked_unstarted_is_told_of_once_the_store_has_it() -> None:
    bench = Bench(slots=1, took=0.002)
    jobs = fill(bench, priority=0)
    bench.app.add_sink(bench.sink)
    revoked = list(bench.pool.waiting)[:2]
    bench.app.transport.revoke([delivery.job_id for delivery in revoked])
    bench.inbox.recall([(delivery, Recall.REVOKED) for delivery in revoked])
    bench.loop._give_back()
    assert bench.fetcher.unsent == [Revoke(delivery) for delivery in revoked]
    assert bench.sink.events == []
    bench.loop.step()
    told = [event for event in bench.sink.events if isinstance(event, JobDropped)]
    assert [(event.job_id, event.reason) for event in told] == [
        (delivery.job_id, "revoked") for delivery in revoked
    ]
    assert [job.state for job in jobs].count(JobState.REVOKED) == 2
    assert bench.fetcher.tally.processed == 0


def test_a_late_settlement_is_refused_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench(slots=1)
    jobs = bench.add(0)
    bench.loop.step()
    bench.pool.begin()
    bench.pass_time(LEASE)
    other = Reservation(queues={"default": 1}, worker="other", lease=LEASE, limit=1)
    assert len(bench.app.transport.reserve(other)) == 1
    bench.finish(bench.pool.running[0])
    bench.loop.step()
    assert jobs[0].state == JobState.RUNNING
    assert bench.fetcher.tally.processed == 0
    assert f"job {jobs[0].id}: Ack refused, its lease was lost" in caplog.text


def test_dropped_jobs_are_logged_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "taskmq.worker")
    bench = Bench(slots=1)
    bench.app.add_sink(bench.sink)
    job = bench.task.submit(1, expires=5.0)
    bench.pass_time(6.0)
    bench.loop.step()
    (dropped,) = [event for event in bench.sink.events if isinstance(event, JobDropped)]
    assert (dropped.job_id, dropped.task, dropped.reason) == (job.id, "noop", "expired")
    assert f"job {job.id} of task noop dropped: expired" in caplog.text
    assert job.state == JobState.EXPIRED


def test_stopping_returns_what_waits_and_finishes_what_runs() -> None:
    bench = Bench(slots=1, took=0.002)
    jobs = fill(bench, priority=0)
    bench.inbox.stop = True
    assert not bench.loop.step()
    assert [job.state for job in jobs].count(JobState.QUEUED) == 10
    bench.finish(bench.pool.running[0])
    assert bench.loop.step()
    assert jobs[0].state == JobState.SUCCEEDED
    assert bench.loop.leave() == 0


def test_the_shutdown_timeout_ends_the_wait() -> None:
    bench = Bench(slots=1)
    bench.add(0)
    bench.loop.step()
    bench.pool.begin()
    bench.inbox.stop = True
    assert not bench.loop.step()
    bench.pass_time(5.0)
    assert bench.loop.step()
    assert bench.loop.leave() == 1


def test_a_job_that_is_due_later_is_taken_when_its_time_has_come() -> None:
    bench = Bench(slots=1)
    bench.task.submit(1, eta=10.0)
    bench.loop.step()
    bench.loop.step()
    bench.pass_time(9.9)
    bench.loop.step()
    assert bench.loop.in_pool == 0
    bench.pass_time(0.2)
    bench.loop.step()
    assert bench.loop.in_pool == 1
