"""The end of a worker: graceful, hard, by signal."""

import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.waiting import PATIENCE

from taskmq import App, Call, Config, JobState
from taskmq.events import CollectingSink, JobReleased, WorkerStarted, WorkerStopped
from taskmq.testing import TransportWrapper
from taskmq.transport import Delivery, Exchange, Reservation, Settlement, Transport
from taskmq.worker import Worker, WorkerHook
from taskmq.worker.signals import handle_signals

Start = Callable[..., Any]


class Bench:
    """An app with a task that waits until the test lets it go."""

    def __init__(self, **config: object) -> None:
        self.app = App(Config(transport="memory://", **config))  # type: ignore[arg-type]
        self.begun = threading.Semaphore(0)
        self.go = threading.Event()
        self.hold = self.app.task(name="hold")(self._hold)

    def _hold(self, number: int) -> int:
        self.begun.release()
        assert self.go.wait(PATIENCE)
        return number

    def wait_until_running(self, count: int) -> None:
        for _ in range(count):
            assert self.begun.acquire(timeout=PATIENCE)


def test_stop_finishes_what_runs_and_takes_nothing_new(run_worker: Start) -> None:
    bench = Bench(concurrency=2)
    running = run_worker(bench.app)
    first = bench.hold.submit_many([(1,), (2,)])
    bench.wait_until_running(2)
    running.worker.stop()
    late = bench.hold.delay(3)
    bench.go.set()
    report = running.result()
    assert [job.get(PATIENCE) for job in first] == [1, 2]
    assert late.state == JobState.QUEUED
    assert (report.succeeded, report.abandoned) == (2, 0)
    assert bench.app.transport.workers() == []


def test_stop_gives_unstarted_jobs_back_at_once(run_worker: Start) -> None:
    bench = Bench(concurrency=1)
    sink = CollectingSink()
    bench.app.add_sink(sink)
    quick = bench.app.task(name="quick")(lambda: None)
    running = run_worker(bench.app)
    warm = quick.submit_many([()] * 50)
    assert warm[-1].wait(PATIENCE) == JobState.SUCCEEDED
    calls: list[Call[Any]] = [bench.hold.call(0), *(quick.call() for _ in range(5))]
    jobs = bench.app.submit_many(calls)
    bench.wait_until_running(1)
    running.worker.stop()
    for job in jobs[1:]:
        _wait_for_state(job.id, bench.app, JobState.QUEUED)
    assert jobs[0].state == JobState.RUNNING
    bench.go.set()
    assert running.result().released == 5
    assert {job.info["deliveries"] for job in jobs[1:]} == {0}
    assert len([event for event in sink.events if isinstance(event, JobReleased)]) == 5


def _wait_for_state(job_id: str, app: App, state: JobState) -> None:
    """Until the store says so; woken by the queue's own listener."""
    listener = app.transport.listen(["default"])
    for _ in range(1000):
        listener.clear()
        record = app.transport.get([job_id])[0]
        if record is not None and record.state is state:
            break
        listener.wait(0.05)
    else:
        pytest.fail(f"job {job_id} did not become {state}")
    listener.close()


def test_after_the_shutdown_timeout_jobs_are_left_to_their_leases(
    run_worker: Start, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(concurrency=2, shutdown_timeout=0.05)
    running = run_worker(bench.app)
    jobs = bench.hold.submit_many([(1,), (2,)])
    bench.wait_until_running(2)
    running.worker.stop()
    report = running.result()
    bench.go.set()
    assert (report.succeeded, report.abandoned) == (0, 2)
    assert {job.state for job in jobs} == {JobState.RUNNING}
    assert "leaves 2 jobs running" in caplog.text


def test_a_stop_may_shorten_the_time_that_one_before_has_given(run_worker: Start) -> None:
    bench = Bench(concurrency=1, shutdown_timeout=3600.0)
    running = run_worker(bench.app)
    job = bench.hold.delay(1)
    bench.wait_until_running(1)
    running.worker.stop()
    running.worker.stop(within=0.05)
    assert running.result().abandoned == 1
    assert job.state == JobState.RUNNING
    bench.go.set()


def test_stop_now_does_not_wait(run_worker: Start) -> None:
    bench = Bench(concurrency=1, shutdown_timeout=3600.0)
    running = run_worker(bench.app)
    job = bench.hold.delay(1)
    bench.wait_until_running(1)
    running.worker.stop()
    running.worker.stop()  # once more changes nothing
    assert running.is_alive
    running.worker.stop_now()
    assert running.result().abandoned == 1
    assert job.state == JobState.RUNNING
    bench.go.set()


def test_stop_before_the_run_ends_it_at_once() -> None:
    bench = Bench()
    job = bench.hold.delay(1)
    worker = Worker(bench.app)
    worker.stop()
    assert worker.run().processed == 0
    assert job.state == JobState.QUEUED
    assert not worker.stopping


def test_start_and_stop_are_events() -> None:
    bench, sink = Bench(concurrency=3), CollectingSink()
    bench.app.add_sink(sink)
    Worker(bench.app, name="w1", queues=["a", "b"]).run_until_idle(PATIENCE)
    started, stopped = sink.events
    assert isinstance(started, WorkerStarted)
    assert (started.worker, started.queues, started.pool) == ("w1", ("a", "b"), "threads")
    assert isinstance(stopped, WorkerStopped)
    assert (stopped.worker, stopped.processed, stopped.released) == ("w1", 0, 0)


class SignalWhenReady(WorkerHook):
    def __init__(self, *numbers: signal.Signals) -> None:
        self.numbers = numbers

    def on_ready(self, worker: Worker) -> None:
        for number in self.numbers:
            os.kill(os.getpid(), number)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_one_signal_stops_gracefully(number: signal.Signals) -> None:
    worker = Worker(Bench().app, hook=SignalWhenReady(number))
    before = signal.getsignal(number)
    with handle_signals(worker):
        assert worker.run().processed == 0
    assert signal.getsignal(number) is before


def test_a_signal_wakes_an_idle_worker() -> None:
    worker = Worker(Bench().app)
    idle = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM))
    idle.start()
    with handle_signals(worker):
        assert worker.run().processed == 0
    idle.join()


def test_a_second_signal_leaves_at_once() -> None:
    bench = Bench(shutdown_timeout=3600.0)

    class SignalTwice(WorkerHook):
        def on_deliveries(self, worker: Worker, deliveries: object) -> None:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGTERM)

    job = bench.hold.delay(1)
    worker = Worker(bench.app, hook=SignalTwice())
    with handle_signals(worker):
        report = worker.run()
    bench.go.set()
    # Signalled before its job was handed to the pool: given back or just started.
    assert report.released + report.abandoned == 1
    assert job.state in (JobState.QUEUED, JobState.RUNNING)


def test_a_process_that_ends_hands_over_what_still_runs(run_worker: Start) -> None:
    bench = Bench(concurrency=2, shutdown_timeout=0.05)
    running = run_worker(bench.app)
    job = bench.hold.delay(1)
    once = bench.app.task(name="once", ack="on_receipt")(bench._hold).delay(2)
    bench.wait_until_running(2)
    running.worker.stop()
    assert running.result().abandoned == 2
    assert running.worker.hand_over() == 2
    assert (job.state, job.info["deliveries"], job.info["reclaims"]) == (JobState.QUEUED, 0, 0)
    assert (once.state, once.info["dead_reason"]) == (JobState.FAILED, "worker_lost")
    assert running.worker.hand_over() == 0
    bench.go.set()


def test_what_has_ended_since_is_settled_at_the_handing_over(run_worker: Start) -> None:
    bench = Bench(concurrency=1, shutdown_timeout=0.05)
    running = run_worker(bench.app)
    job = bench.hold.delay(7)
    bench.wait_until_running(1)
    session = running.worker._session
    running.worker.stop()
    assert running.result().abandoned == 1
    bench.go.set()
    assert session.pool.stop(PATIENCE)  # its slot is through
    assert running.worker.hand_over() == 0
    assert job.get(PATIENCE) == 7


class Slow(TransportWrapper):
    """The next exchange that settles anything stays on its way until the test lets it go."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.under_way = threading.Event()
        self.arrive = threading.Event()

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        if settlements and not self.under_way.is_set():
            self.under_way.set()
            assert self.arrive.wait(PATIENCE)
        return super().exchange(settlements, reservation)


def test_what_is_on_its_way_at_the_handing_over_is_not_lost(run_worker: Start) -> None:
    """The process ends before it has left."""
    bench = Bench(concurrency=1)
    slow = bench.app._transport = Slow(bench.app.transport)
    running = run_worker(bench.app)
    job = bench.hold.delay(7)
    bench.wait_until_running(1)
    bench.go.set()
    assert slow.under_way.wait(PATIENCE)
    assert running.worker.hand_over() == 0
    assert job.state is JobState.SUCCEEDED
    slow.arrive.set()
    running.worker.stop()
    assert running.result().succeeded == 1


def test_a_pool_that_can_end_its_jobs_gives_them_back(run_worker: Start) -> None:
    bench = Bench(concurrency=2, shutdown_timeout=0.05)
    sink = CollectingSink()
    bench.app.add_sink(sink)
    running = run_worker(bench.app)
    jobs = bench.hold.submit_many([(1,), (2,)])
    bench.wait_until_running(2)

    def abort() -> list[Delivery]:  # as if threads could be ended
        ended: list[Delivery] = running.worker.in_flight()
        bench.go.set()
        return ended

    running.worker._session.pool.abort = abort
    running.worker.stop()
    report = running.result()
    assert (report.interrupted, report.abandoned) == (2, 0)
    assert "2 cut short, to run again" in str(report)
    assert {job.state for job in jobs} == {JobState.QUEUED}
    reasons = {event.reason for event in sink.events if isinstance(event, JobReleased)}
    assert reasons == {"the worker stops, and it takes too long"}


def test_health_follows_the_life_of_a_worker(run_worker: Start) -> None:
    bench = Bench(concurrency=1)
    idle = Worker(bench.app)
    assert (idle.health().live, idle.health().ready) == (True, False)
    running = run_worker(bench.app)
    health = running.worker.health()
    assert (health.live, health.ready) == (True, True)
    bench.hold.delay(1)
    bench.wait_until_running(1)
    assert [delivery.queue for delivery in running.worker.in_flight()] == ["default"]
    running.worker.stop()
    health = running.worker.health()
    assert (health.live, health.ready, health.status) == (True, False, "stopping")
    bench.go.set()
    running.result()
    assert running.worker.in_flight() == []


class StuckHook(WorkerHook):
    def __init__(self) -> None:
        self.stuck, self.go = threading.Event(), threading.Event()

    def on_deliveries(self, worker: Worker, deliveries: object) -> None:
        self.stuck.set()
        assert self.go.wait(PATIENCE)


def test_a_loop_that_is_stuck_is_not_live() -> None:
    bench, hook = Bench(), StuckHook()
    bench.go.set()
    worker = Worker(bench.app, hook=hook)
    bench.hold.delay(1)
    thread = threading.Thread(target=worker.run_until_idle)
    thread.start()
    assert hook.stuck.wait(PATIENCE)
    assert worker.health().live  # it may take a while
    health = worker.health(stuck_after=0.0)
    assert (health.live, health.ready) == (False, False)
    assert health.status.startswith("stuck: the loop has been working for 0 s")
    hook.go.set()
    thread.join(PATIENCE)


def test_a_long_job_in_the_thread_of_the_loop_is_not_a_stuck_loop() -> None:
    bench = Bench(pool="solo")
    worker = Worker(bench.app)
    job = bench.hold.delay(1)
    thread = threading.Thread(target=worker.run_until_idle)
    thread.start()
    bench.wait_until_running(1)
    assert worker.health(stuck_after=0.0).live
    bench.go.set()
    thread.join(PATIENCE)
    assert job.state == JobState.SUCCEEDED
