"""What a worker tells the registry, and how it keeps what it has."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from tests.waiting import PATIENCE

from taskmq import App, Config, JobState, current_task
from taskmq.events import CollectingSink, Event, QueueDepth, WorkerHeartbeat

Start = Callable[..., Any]


class Beats(CollectingSink):
    """An event is set at the second heartbeat."""

    def __init__(self) -> None:
        super().__init__()
        self.second = threading.Event()

    def handle(self, events: Sequence[Event]) -> None:
        super().handle(events)
        if sum(isinstance(event, WorkerHeartbeat) for event in self.events) >= 2:
            self.second.set()


def test_a_worker_is_registered_while_it_runs(run_worker: Start) -> None:
    app = App(Config(transport="memory://", concurrency=3, heartbeat_interval=7.0))
    app.task(name="b")(lambda: None)
    app.task(name="a")(lambda: None)
    running = run_worker(app, name="w1", queues=["mail"])
    (entry,) = app.transport.workers()
    assert (entry.id, entry.queues, entry.pool, entry.concurrency) == (
        "w1",
        ("mail",),
        "threads",
        3,
    )
    assert (entry.tasks, entry.heartbeat_interval) == (("a", "b"), 7.0)
    assert entry.pid > 0
    assert entry.host
    running.worker.stop()
    running.result()
    assert app.transport.workers() == []


def test_heartbeats_carry_what_runs_and_was_done(run_worker: Start) -> None:
    app = App(Config(transport="memory://", heartbeat_interval=0.02))
    beats, begun, go = Beats(), threading.Event(), threading.Event()
    app.add_sink(beats)

    @app.task
    def hold() -> None:
        begun.set()
        assert go.wait(PATIENCE)

    app.task(name="quick")(lambda: None).delay()
    hold.delay()
    run_worker(app)
    assert begun.wait(PATIENCE)
    assert beats.second.wait(PATIENCE)
    (entry,) = app.transport.workers()
    assert entry.heartbeat_at > entry.started_at
    assert entry.running == 1
    go.set()
    depths = [event for event in beats.events if isinstance(event, QueueDepth)]
    assert depths[0].queue == "default"


def test_a_job_longer_than_its_lease_runs_once(run_worker: Start) -> None:
    app = App(Config(transport="memory://", lease=0.06, heartbeat_interval=0.06))
    go = threading.Event()

    @app.task
    def long() -> bool:
        until = current_task().delivery.lease_until
        while app.clock.now() < until + 0.1:
            go.wait(0.01)
        return current_task().cancelled

    job = long.delay()
    run_worker(app)
    run_worker(app)  # would take it as soon as the lease ended
    assert job.get(PATIENCE) is False
    assert (job.state, job.info["deliveries"]) == (JobState.SUCCEEDED, 1)


def test_a_long_job_in_the_solo_pool_keeps_its_lease_too(run_worker: Start) -> None:
    app = App(Config(transport="memory://", pool="solo", lease=0.06, heartbeat_interval=0.06))
    go = threading.Event()

    @app.task
    def long() -> float:
        context = current_task()
        while app.clock.now() < context.delivery.lease_until + 0.1:
            go.wait(0.01)
        return app.transport.workers()[0].heartbeat_at - context.started_at

    job = long.delay()
    run_worker(app)
    assert job.get(PATIENCE) > 0  # it was alive meanwhile
    assert job.info["deliveries"] == 1


def test_a_job_that_is_revoked_while_it_runs_is_told_within_a_second(run_worker: Start) -> None:
    app = App(Config(transport="memory://", lease=60.0))
    begun, go = threading.Event(), threading.Event()

    @app.task
    def long() -> None:
        begun.set()
        while True:
            current_task().check_cancelled()
            go.wait(0.01)

    job = long.delay()
    run_worker(app)
    assert begun.wait(PATIENCE)
    revoked_at = time.monotonic()
    job.revoke()
    assert job.wait(PATIENCE) == JobState.REVOKED
    assert time.monotonic() - revoked_at < 1.5  # two looks half a second apart, and a busy machine
