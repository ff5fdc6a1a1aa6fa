"""What a worker gives back unstarted: for urgent jobs, behind long ones, for a revoke."""

import threading
import time
from collections.abc import Callable
from typing import Any

from tests.waiting import PATIENCE

from taskmq import App, Call, Config, JobState, current_task
from taskmq.events import CollectingSink, JobReleased
from taskmq.testing.faults import FailBefore, FaultPlan, FaultyTransport
from taskmq.worker import Worker

RunWorker = Callable[..., Any]


class Workbench:
    """An app whose jobs wait until they are let go. ``started`` are their numbers in order."""

    def __init__(self, *, concurrency: int, prefetch: int | None = None) -> None:
        self.app = App(
            Config(transport="memory://", concurrency=concurrency, prefetch=prefetch, lease=30.0)
        )
        self.started: list[int] = []
        self.changed = threading.Condition()
        self.gates: dict[int, threading.Event] = {}
        self.hold = self.app.task(name="hold")(self._hold)
        self.note = self.app.task(name="note")(self._note)

    def _hold(self, number: int) -> None:
        gate = self.gates.setdefault(number, threading.Event())
        self._note(number)
        assert gate.wait(PATIENCE)

    def _note(self, number: int) -> None:
        with self.changed:
            self.started.append(number)
            self.changed.notify_all()

    def wait_for(self, *numbers: int) -> None:
        """Until these have started."""
        with self.changed:
            assert self.changed.wait_for(lambda: set(numbers) <= set(self.started), PATIENCE)

    def let_go(self, *numbers: int) -> None:
        for number in numbers:
            self.gates.setdefault(number, threading.Event()).set()


def test_short_jobs_behind_a_long_one_go_to_an_idle_worker(run_worker: RunWorker) -> None:
    bench = Workbench(concurrency=1)
    # Short jobs first, so that the worker thinks nothing of reserving several.
    bench.note.submit_many([(number,) for number in range(100, 150)])
    Worker(bench.app).run_until_idle(PATIENCE)
    run_worker(bench.app)
    bench.note.submit_many([(number,) for number in range(200, 250)])
    bench.wait_for(*range(200, 250))
    bench.hold.delay(0)
    bench.wait_for(0)
    jobs = bench.hold.submit_many([(1,), (2,), (3,)])
    for _ in range(3):
        run_worker(bench.app)
    bench.wait_for(1, 2, 3)  # all four run at once
    bench.let_go(0, 1, 2, 3)
    assert [job.wait(PATIENCE) for job in jobs] == [JobState.SUCCEEDED] * 3


def test_jobs_that_were_reserved_together_with_a_long_one_are_given_back(
    run_worker: RunWorker,
) -> None:
    bench = Workbench(concurrency=1)
    sink = CollectingSink()
    bench.app.add_sink(sink)
    first = run_worker(bench.app)
    bench.note.submit_many([(number,) for number in range(100, 150)])
    bench.wait_for(*range(100, 150))
    # In one batch, so that the eager worker has all four before it knows that the first is long.
    calls: list[Call[Any]] = [
        bench.hold.call(0),
        *(bench.note.call(number) for number in (1, 2, 3)),
    ]
    bench.app.submit_many(calls)
    bench.wait_for(0)
    run_worker(bench.app)
    bench.wait_for(1, 2, 3)
    assert bench.started[-4] == 0
    released = [event for event in sink.events if isinstance(event, JobReleased)]
    assert [event.reason for event in released] == ["the jobs before it take long"] * 3
    assert first is not None
    bench.let_go(0)


def test_a_worker_takes_up_queues_and_leaves_them_while_it_runs(run_worker: RunWorker) -> None:
    bench = Workbench(concurrency=1)
    running = run_worker(bench.app, queues=["default"])

    def elsewhere(number: int) -> Any:
        return bench.note.submit(number, queue="more")

    elsewhere(1)
    running.worker.consume(["default", "more"])
    bench.wait_for(1)
    elsewhere(2)  # it waits by now
    bench.wait_for(2)
    running.worker.consume([])
    left = [bench.note.delay(3), elsewhere(4)]
    running.worker.consume(["more"])
    assert left[1].wait(PATIENCE) is JobState.SUCCEEDED
    assert left[0].state is JobState.QUEUED
    assert running.worker.queues == ("more",)


def test_a_solo_worker_gives_back_what_waits_behind_its_job(run_worker: RunWorker) -> None:
    bench = Workbench(concurrency=1)
    solo = bench.app.config.replace(pool="solo")
    running = run_worker(bench.app, config=solo)
    bench.note.submit_many([(number,) for number in range(100, 150)])
    bench.wait_for(*range(100, 150))
    calls = [bench.hold.call(0), *(bench.note.call(number) for number in (1, 2, 3))]
    bench.app.submit_many(calls)
    bench.wait_for(0)
    run_worker(bench.app)
    bench.wait_for(1, 2, 3)
    bench.let_go(0)
    running.worker.stop()
    report = running.result()
    assert (report.succeeded, report.released) == (51, 3)


def test_what_a_solo_worker_cannot_give_back_at_once_it_runs_later() -> None:
    bench = Workbench(concurrency=1)
    plan = FaultPlan(FailBefore("settle"))
    transport = FaultyTransport(bench.app.transport, plan)
    app = App(bench.app.config.replace(pool="solo"), transport=transport)
    ran: list[int] = []
    note = app.task(name="append")(ran.append)

    @app.task(name="until_the_store_failed")
    def until_the_store_failed() -> None:
        while not plan.struck:
            time.sleep(0.001)

    app.submit_many([note.call(number) for number in range(50)])
    app.submit_many([until_the_store_failed.call(), *(note.call(n) for n in (51, 52, 53))])
    report = Worker(app).run_until_idle(PATIENCE)
    assert (report.succeeded, report.released) == (54, 3)
    assert ran == [*range(50), 51, 52, 53]


def test_a_free_slot_takes_the_most_urgent(run_worker: RunWorker) -> None:
    bench = Workbench(concurrency=1)
    run_worker(bench.app)
    bench.hold.delay(0)
    bench.wait_for(0)
    for number, priority in enumerate([0, -9, 9, 3, 9], start=1):
        bench.note.submit(number, priority=priority)
    bench.let_go(0)
    bench.wait_for(1, 2, 3, 4, 5)
    assert bench.started == [0, 3, 5, 4, 1, 2]


def test_reserved_jobs_stand_back_for_more_urgent_ones(run_worker: RunWorker) -> None:
    bench = Workbench(concurrency=2)
    bench.note.submit_many([(number,) for number in range(1000, 1100)])
    Worker(bench.app).run_until_idle(PATIENCE)
    bench.started.clear()

    @bench.app.task(name="first")
    def first() -> None:
        # While this runs, the worker holds the ordinary jobs behind it.
        bench.note.submit_many([(number,) for number in range(10)], priority=5)

    bench.app.submit_many([first.call(), *(bench.note.call(n) for n in range(100, 400))])
    run_worker(bench.app)
    bench.wait_for(*range(10), *range(100, 400))
    last_urgent = max(bench.started.index(number) for number in range(10))
    ordinary_before = sum(number >= 100 for number in bench.started[:last_urgent])
    assert ordinary_before < 150, "urgent jobs waited for everything that was reserved"


def test_what_runs_is_never_interrupted(run_worker: RunWorker) -> None:
    bench = Workbench(concurrency=1)
    run_worker(bench.app)
    job = bench.hold.delay(0)
    bench.wait_for(0)
    bench.note.submit(1, priority=9)
    assert bench.started == [0]
    bench.let_go(0)
    bench.wait_for(1)
    assert job.wait(PATIENCE) == JobState.SUCCEEDED
    assert job.info["deliveries"] == 1


def test_revoking_a_running_job_tells_the_task(run_worker: RunWorker) -> None:
    app = App(Config(transport="memory://", lease=0.06, heartbeat_interval=0.05))
    started = threading.Event()

    @app.task
    def patient() -> str:
        started.set()
        give_up = threading.Event()
        context = current_task()
        while not context.cancelled:
            give_up.wait(0.001)
        context.check_cancelled()
        return "never"

    run_worker(app)
    job = patient.delay()
    assert started.wait(PATIENCE)
    assert job.revoke()
    assert job.wait(PATIENCE) == JobState.REVOKED
