"""A worker in a thread, on the memory store: start, work, wake up, stop."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from taskmq import App, Config, ConfigError, JobState
from taskmq.worker import Worker, WorkerHook, WorkerReport

DEADLINE = 10.0


class Ready(WorkerHook):
    """Says when the worker reserves."""

    def __init__(self) -> None:
        self.event = threading.Event()

    def on_ready(self, worker: Worker) -> None:
        self.event.set()


@contextmanager
def running(app: App, **options: object) -> Iterator[tuple[Worker, list[WorkerReport]]]:
    """A worker that runs in a thread; stopped and joined at the end."""
    ready, reports = Ready(), list[WorkerReport]()
    worker = Worker(app, hook=ready, **options)  # type: ignore[arg-type]  # as the test says
    thread = threading.Thread(target=lambda: reports.append(worker.run()))
    thread.start()
    assert ready.event.wait(DEADLINE)
    try:
        yield worker, reports
    finally:
        worker.stop()
        thread.join(DEADLINE)
        assert not thread.is_alive()


@pytest.fixture(params=["solo", "threads"])
def app(request: pytest.FixtureRequest) -> App:
    return App(Config(transport="memory://", pool=request.param, concurrency=3))


def test_runs_what_was_submitted_before_and_after_it_started(app: App) -> None:
    @app.task
    def double(number: int) -> int:
        return 2 * number

    before = double.delay(1)
    with running(app):
        after = double.delay(2)
        assert (before.get(DEADLINE), after.get(DEADLINE)) == (2, 4)


def test_wakes_up_from_idleness_again_and_again(app: App) -> None:
    @app.task
    def echo(number: int) -> int:
        return number

    with running(app) as (_, reports):
        assert [echo.delay(number).get(DEADLINE) for number in range(50)] == list(range(50))
    assert reports[0].succeeded == reports[0].processed == 50


def test_run_until_idle_runs_everything_that_is_ready(app: App) -> None:
    @app.task
    def echo(number: int) -> int:
        return number

    results = echo.submit_many([(number,) for number in range(500)])
    report = Worker(app).run_until_idle(DEADLINE)
    assert report.succeeded == 500
    assert {result.state for result in results} == {JobState.SUCCEEDED}


def test_run_until_idle_runs_what_tasks_submit(app: App) -> None:
    @app.task
    def countdown(left: int) -> None:
        if left:
            countdown.delay(left - 1)

    countdown.delay(5)
    assert Worker(app).run_until_idle(DEADLINE).succeeded == 6


def test_no_thread_outlives_a_run(app: App) -> None:
    @app.task
    def noop() -> None: ...

    before = set(threading.enumerate())
    noop.delay()
    Worker(app).run_until_idle(DEADLINE)
    assert set(threading.enumerate()) == before


def test_async_task_is_refused_with_its_name(app: App) -> None:
    @app.task(name="mine.later")
    async def later() -> None: ...

    with pytest.raises(ConfigError, match=r"'mine\.later' is async def, which the (solo|threads)"):
        Worker(app).run()
