"""Jobs that end without an attempt that could tell: the hooks of the worker are told, once."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from tests.waiting import PATIENCE, wait_for

from taskmq import App, Config, JobState, Task, TaskContext
from taskmq.errors import RejectJob
from taskmq.events import CollectingSink, JobDropped
from taskmq.executor import UNRUNNABLE
from taskmq.hooks import WorkerHook
from taskmq.records import Dropped
from taskmq.testing import FakeClock
from taskmq.transport import Ack, Delivery, Reservation, Settlement
from taskmq.worker import Worker

RunWorker = Callable[..., Any]


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
    Worker(app, hook=hook).run_until_idle(PATIENCE)
    assert job.state is JobState.EXPIRED
    assert hook.dropped == [Dropped(job.id, "late", "default", "expired")]
    assert [event.job_id for event in sink.events if isinstance(event, JobDropped)] == [job.id]


def test_a_job_without_a_task_when_its_time_in_the_park_is_over(app: App, clock: FakeClock) -> None:
    job = App(app.config, transport=app.transport, clock=clock).task(name="x")(lambda: None).delay()
    sink, hook = events_of(app), Slow(clock, 0)
    app.add_hook(hook)  # one of the app is told as one of the worker is
    for seconds in (1.0, 1.0, 0.5, 0.0):  # as it is offered again, for the last time at the end
        assert hook.dropped == []
        Worker(app).run_until_idle(PATIENCE)
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
    Worker(app, hook=hook).run_until_idle(PATIENCE)
    assert hook.dropped == [Dropped(from_elsewhere.id, "", "default", "malformed")]


def spoil(app: App, job_id: str) -> None:
    store: Any = app.transport
    store._store.jobs[job_id].data = b"{"


@pytest.mark.parametrize("reason", ["malformed", *UNRUNNABLE])
@pytest.mark.parametrize("parked", [False, True])
def test_a_job_that_rejects_itself_has_an_attempt_that_tells(
    app: App, clock: FakeClock, reason: str, parked: bool
) -> None:
    """Whatever reason it gives, and if it was parked before because of that."""
    failed: list[str] = []

    class Fussy(Task[[], None]):
        name = "fussy"

        def run(self) -> None:
            raise RejectJob(reason)

        def on_failure(self, ctx: TaskContext, error: BaseException) -> None:
            failed.append(ctx.id)

    job = App(app.config, transport=app.transport, clock=clock).register(Fussy()).delay()
    sink, hook = events_of(app), Slow(clock, 0)
    if parked:
        Worker(app, hook=hook).run_until_idle(PATIENCE)
        clock.advance(1)
    app.register(Fussy())
    Worker(app, hook=hook).run_until_idle(PATIENCE)
    assert job.record is not None
    assert (job.record.state, job.record.dead_reason) == (JobState.FAILED, reason)
    assert (failed, hook.dropped) == ([job.id], [])
    assert not any(isinstance(event, JobDropped) for event in sink.events)


def test_what_maintenance_ends_is_told(app: App, clock: FakeClock, run_worker: RunWorker) -> None:
    """Also of a queue that this worker does not serve."""
    late = app.task(name="late", queue="elsewhere")(lambda: None)
    job, lost, stopped = late.submit(expires=5), late.submit(), late.submit()
    wanted = Reservation(queues={"elsewhere": 1}, worker="gone", lease=5.0, limit=3)
    app.transport.reserve(msgspec.structs.replace(wanted, jobs=[lost.id, stopped.id]))
    stopped.revoke()
    clock.advance(5)
    sink, hook = events_of(app), Slow(clock, 0)
    app.add_hook(hook)
    task = app.task(name="served")(lambda: None)
    for _ in range(2):
        served = task.delay()
        run_worker(app, queues=["default"])
        assert served.wait(PATIENCE) is JobState.SUCCEEDED
        wait_for(lambda: len(hook.dropped) >= 2)
    expected = [(stopped.id, "revoked"), (job.id, "expired")]
    assert [(drop.job_id, drop.reason) for drop in hook.dropped] == expected
    dropped = [event for event in sink.events if isinstance(event, JobDropped)]
    assert [(event.job_id, event.reason) for event in dropped] == expected
    assert lost.state is JobState.QUEUED


def test_a_hook_that_fails_costs_nothing(
    app: App, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(WorkerHook):
        def on_dropped(self, worker: Worker, dropped: Sequence[Dropped]) -> None:
            raise ValueError("broken")

    job = app.task(name="late")(lambda: None).submit(expires=5)
    clock.advance(6)
    Worker(app, hook=Broken()).run_until_idle(PATIENCE)
    assert job.state is JobState.EXPIRED
    assert "on_dropped of the worker hook failed" in caplog.text


def test_what_is_revoked_during_a_turn_of_the_solo_pool_does_not_start(
    app: App, clock: FakeClock
) -> None:
    """The loop is inside a job then, and hears of it only afterwards."""
    ran: list[int] = []
    revoked: list[Any] = []
    sink, hook = events_of(app), Slow(clock, 0)
    worker = Worker(app, hook=hook)

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
    worker.run_until_idle(PATIENCE)
    assert revoked
    assert {job.state for job in revoked} == {JobState.REVOKED}
    assert len(ran) == 20 - len(revoked)
    ids = [job.id for job in revoked]
    assert hook.dropped == [Dropped(id, "follower", "default", "revoked") for id in ids]
    assert [event.job_id for event in sink.events if isinstance(event, JobDropped)] == ids


def test_a_hook_lets_some_not_start_and_hears_how_the_others_ended(app: App) -> None:
    class Choosy(WorkerHook):
        def __init__(self) -> None:
            self.settled: list[tuple[str, type]] = []
            self.dropped: list[Dropped] = []

        def on_deliveries(
            self, worker: Worker, deliveries: Sequence[Delivery]
        ) -> list[Delivery] | None:
            return [one for one in deliveries if one.job_id in unwanted] or None

        def on_settled(self, worker: Worker, settlements: Sequence[Settlement]) -> None:
            self.settled += [(one.delivery.job_id, type(one)) for one in settlements]

        def on_dropped(self, worker: Worker, dropped: Sequence[Dropped]) -> None:
            self.dropped += dropped

    ran: list[int] = []
    jobs = app.task(name="work")(ran.append).submit_many([(number,) for number in range(4)])
    unwanted = {jobs[0].id, jobs[2].id}
    hook = Choosy()
    Worker(app, hook=hook).run_until_idle(PATIENCE)
    assert ran == [1, 3]
    assert [job.state for job in jobs] == [JobState.REVOKED, JobState.SUCCEEDED] * 2
    assert sorted(hook.settled) == sorted((jobs[number].id, Ack) for number in ran)
    assert {drop.job_id for drop in hook.dropped} == unwanted
