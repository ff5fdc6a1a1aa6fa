"""A worker on the memory store: start, work, wake up, stop."""

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.waiting import PATIENCE

from taskmq import App, Config, ConfigError, JobState, QueueConfig
from taskmq.testing import FakeClock
from taskmq.worker import Worker, WorkerHook, WorkerReport


@pytest.fixture(params=["solo", "threads"])
def app(request: pytest.FixtureRequest) -> App:
    return App(Config(transport="memory://", pool=request.param, concurrency=3))


def test_runs_what_was_submitted_before_and_after_it_started(
    app: App, run_worker: Callable[..., Any]
) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    before = double.delay(1)
    run_worker(app)
    after = double.delay(2)
    assert (before.get(PATIENCE), after.get(PATIENCE)) == (2, 4)


def test_wakes_up_from_idleness_again_and_again(app: App, run_worker: Callable[..., Any]) -> None:
    @app.task
    def echo(number: int) -> int:
        return number

    run_worker(app)
    assert [echo.delay(number).get(PATIENCE) for number in range(50)] == list(range(50))


def test_runs_a_job_when_it_is_due(app: App, run_worker: Callable[..., Any]) -> None:
    @app.task
    def echo(number: int) -> int:
        return number

    run_worker(app)
    assert echo.submit(1, eta=0.05).get(PATIENCE) == 1


def test_run_until_idle_runs_everything_that_is_ready(app: App) -> None:
    @app.task
    def echo(number: int) -> int:
        return number

    results = echo.submit_many([(number,) for number in range(500)])
    report = Worker(app).run_until_idle(PATIENCE)
    assert report.succeeded == report.processed == 500
    assert {result.state for result in results} == {JobState.SUCCEEDED}


def test_run_until_idle_runs_what_tasks_submit(app: App) -> None:
    @app.task
    def countdown(left: int) -> None:
        if left:
            countdown.delay(left - 1)

    countdown.delay(5)
    assert Worker(app).run_until_idle(PATIENCE).succeeded == 6


@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_run_until_idle_with_a_clock_that_stands_still(pool: str) -> None:
    clock = FakeClock()
    app = App(Config(transport="memory://", pool=pool), clock=clock)

    @app.task
    def echo(number: int) -> int:
        return number

    now, later = echo.delay(1), echo.submit(2, eta=60.0)
    worker = Worker(app)
    assert worker.run_until_idle(PATIENCE).succeeded == 1
    assert (now.state, later.state) == (JobState.SUCCEEDED, JobState.QUEUED)
    clock.advance(60.0)
    assert worker.run_until_idle(PATIENCE).succeeded == 1
    assert later.state == JobState.SUCCEEDED


@pytest.mark.parametrize("pool", ["solo", "threads"])
def test_run_until_idle_sees_to_what_nobody_else_would(pool: str) -> None:
    """A job of a queue that this worker does not serve has expired; nothing else is there."""
    clock = FakeClock()
    app = App(Config(transport="memory://", pool=pool), clock=clock)
    result = app.task(queue="elsewhere", name="echo")(print).submit(expires=5)
    clock.advance(5)
    Worker(app, queues=["default"]).run_until_idle(PATIENCE)
    assert result.state is JobState.EXPIRED


def test_run_until_idle_gives_up_after_its_timeout() -> None:
    app, release = App(Config(transport="memory://")), threading.Event()

    @app.task
    def hang() -> None:
        release.wait(PATIENCE)

    hang.delay()
    with pytest.raises(TimeoutError, match="1 jobs run"):
        Worker(app).run_until_idle(0.05)
    release.set()


def test_interrupting_a_solo_worker_leaves_the_job_to_its_lease() -> None:
    app = App(Config(transport="memory://", pool="solo"))

    @app.task
    def interrupted() -> None:
        raise KeyboardInterrupt

    job = interrupted.delay()
    with pytest.raises(KeyboardInterrupt):
        Worker(app).run_until_idle(PATIENCE)
    assert job.state == JobState.RUNNING


def test_a_worker_runs_once_at_a_time(app: App, run_worker: Callable[..., Any]) -> None:
    running = run_worker(app)
    with pytest.raises(RuntimeError, match="runs already"):
        running.worker.run()


def test_no_thread_outlives_a_run(app: App) -> None:
    @app.task
    def noop() -> None: ...

    before = set(threading.enumerate())
    noop.delay()
    Worker(app).run_until_idle(PATIENCE)
    assert set(threading.enumerate()) <= before


def test_async_task_is_refused_with_its_name(app: App) -> None:
    @app.task(name="mine.later")
    async def later() -> None: ...

    with pytest.raises(ConfigError, match=r"'mine\.later' is async def, which the (solo|threads)"):
        Worker(app).run()


def test_a_task_that_raises_anything_costs_no_slot() -> None:
    app = App(Config(transport="memory://", pool="threads", concurrency=1))

    @app.task(max_deliveries=2)
    def exit_(kind: str) -> None:
        raise {"exit": SystemExit, "break": KeyboardInterrupt, "error": ValueError}[kind](kind)

    @app.task
    def echo(number: int) -> int:
        return number

    bad = exit_.submit_many([("exit",), ("break",), ("error",)])
    good = echo.delay(1)
    report = Worker(app).run_until_idle(PATIENCE)
    assert (report.failed, report.succeeded) == (2, 1)
    assert {one.state for one in bad} == {JobState.FAILED}
    reasons = [one.info["dead_reason"] for one in bad]
    assert reasons == ["error", "worker_lost", "error"]  # an interrupt is no failure of the task
    assert good.get(PATIENCE) == 1


def test_unknown_task_is_parked_and_runs_when_a_worker_knows_it(app: App) -> None:
    app.task(name="known")(lambda: None)
    job = app.tasks["known"].call().options().submit()
    stranger = App(app.config, transport=app.transport)
    assert Worker(stranger).run_until_idle(PATIENCE).processed == 0
    assert job.info["parked_reason"] == "unknown_task"
    assert Worker(app).run_until_idle(PATIENCE).succeeded == 1  # registering makes it visible


class Recorder(WorkerHook):
    def __init__(self) -> None:
        self.calls: list[tuple[str, object]] = []

    def on_start(self, worker: Worker) -> None:
        self.calls.append(("start", worker.app.transport.workers()))

    def on_ready(self, worker: Worker) -> None:
        self.calls.append(("ready", [entry.id for entry in worker.app.transport.workers()]))

    def on_deliveries(self, worker: Worker, deliveries: object) -> None:
        self.calls.append(("deliveries", len(deliveries)))  # type: ignore[arg-type]

    def on_stop(self, worker: Worker, report: WorkerReport) -> None:
        self.calls.append(("stop", (report.succeeded, worker.app.transport.workers())))


def test_hooks_see_the_life_of_a_worker_in_order(app: App) -> None:
    app.task(name="noop")(lambda: None).delay()
    hook = Recorder()
    Worker(app, name="w1", hook=hook).run_until_idle(PATIENCE)
    assert hook.calls == [("start", []), ("ready", ["w1"]), ("deliveries", 1), ("stop", (1, []))]


def test_a_failing_hook_is_logged_and_harms_nothing(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(WorkerHook):
        def on_ready(self, worker: Worker) -> None:
            raise RuntimeError("hook is broken")

    app.task(name="noop")(lambda: None).delay()
    assert Worker(app, hook=Broken()).run_until_idle(PATIENCE).succeeded == 1
    assert "on_ready of the worker hook failed" in caplog.text


def test_default_queues_are_the_default_one_and_those_declared() -> None:
    app = App(
        Config(transport="memory://", default_queue="main", queues={"mail": QueueConfig(weight=2)})
    )
    assert Worker(app).queues == ("main", "mail")
    with pytest.raises(ConfigError, match="a worker needs queues"):
        Worker(app, queues=[])
