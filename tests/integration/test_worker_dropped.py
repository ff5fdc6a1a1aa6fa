"""Jobs that end without an attempt that could tell: the hooks of the worker are told, once."""

from collections.abc import Sequence
from typing import Any

import pytest

from taskmq import App, Config, JobState
from taskmq.events import CollectingSink, JobDropped
from taskmq.hooks import WorkerHook
from taskmq.records import Dropped
from taskmq.testing import FakeClock
from taskmq.transport import Delivery
from taskmq.worker import Worker

DEADLINE = 10.0


class Slow(WorkerHook):
    """Lets so many seconds pass between reservation and start."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        self.dropped: list[Dropped] = []
        self._clock = clock
        self._seconds = seconds

    def on_deliveries(self, worker: Worker, deliveries: Sequence[Delivery]) -> None:
        self._clock.advance(self._seconds)

    def on_dropped(self, worker: Worker, dropped: Sequence[Dropped]) -> None:
        self.dropped += dropped


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def app(clock: FakeClock) -> App:
    return App(Config(transport="memory://", pool="solo", park_ttl=2.5), clock=clock)


def events_of(app: App) -> CollectingSink:
    sink = CollectingSink()
    app.add_sink(sink)
    return sink


@pytest.mark.parametrize("waits", ["in the store", "in the worker"])
def test_a_job_that_expires(app: App, clock: FakeClock, waits: str) -> None:
    job = app.task(name="late")(lambda: None).submit(expires=5)
    sink, hook = events_of(app), Slow(clock, 6)
    if waits == "in the store":
        clock.advance(6)
    Worker(app, hook=hook).run_until_idle(DEADLINE)
    assert job.state is JobState.EXPIRED
    assert hook.dropped == [Dropped(job.id, "late", "default", "expired")]
    assert [event.job_id for event in sink.events if isinstance(event, JobDropped)] == [job.id]


def test_a_job_without_a_task_when_its_time_in_the_park_is_over(app: App, clock: FakeClock) -> None:
    job = App(app.config, transport=app.transport, clock=clock).task(name="x")(lambda: None).delay()
    sink, hook = events_of(app), Slow(clock, 0)
    app.add_hook(hook)  # one of the app is told as one of the worker is
    for seconds in (1.0, 1.0, 0.5, 0.0):  # as it is offered again, for the last time at the end
        assert hook.dropped == []
        Worker(app).run_until_idle(DEADLINE)
        clock.advance(seconds)
    assert job.state is JobState.FAILED
    assert hook.dropped == [Dropped(job.id, "x", "default", "unknown_task")]
    assert [event.reason for event in sink.events if isinstance(event, JobDropped)] == [
        "unknown_task"
    ]
    assert job.record is not None
    assert job.record.dead_reason == "unknown_task"


def test_bytes_that_are_no_envelope(app: App, clock: FakeClock) -> None:
    from_elsewhere = app.task(name="x")(lambda: None).delay()
    hook = Slow(clock, 0)
    spoil(app, from_elsewhere.id)
    Worker(app, hook=hook).run_until_idle(DEADLINE)
    assert hook.dropped == [Dropped(from_elsewhere.id, "", "default", "malformed")]


def spoil(app: App, job_id: str) -> None:
    store: Any = app.transport
    store._store.jobs[job_id].data = b"{"


def test_a_hook_that_fails_costs_nothing(
    app: App, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(WorkerHook):
        def on_dropped(self, worker: Worker, dropped: Sequence[Dropped]) -> None:
            raise ValueError("broken")

    job = app.task(name="late")(lambda: None).submit(expires=5)
    clock.advance(6)
    Worker(app, hook=Broken()).run_until_idle(DEADLINE)
    assert job.state is JobState.EXPIRED
    assert "on_dropped of the worker hook failed" in caplog.text


def test_what_is_revoked_during_a_turn_of_the_solo_pool_does_not_start(app: App) -> None:
    """The loop is inside a job then, and hears of it only afterwards."""
    ran: list[int] = []
    revoked: list[Any] = []
    worker = Worker(app)

    @app.task(name="first")
    def first() -> None:
        held = [job for job in followers if job.state is JobState.RUNNING]  # here, unstarted
        for job in held:
            assert job.revoke()
        session: Any = worker._session
        for _ in range(2):  # what is held since the last check
            session.keeper.check()
        revoked.extend(held)

    @app.task(name="follower")
    def follower(number: int) -> None:
        ran.append(number)

    app.task(name="noop")(lambda: None).submit_many([()] * 100)  # so that it reserves many at once
    first.delay()
    followers = follower.submit_many([(number,) for number in range(20)])
    worker.run_until_idle(DEADLINE)
    assert revoked
    assert {job.state for job in revoked} == {JobState.REVOKED}
    assert len(ran) == 20 - len(revoked)
