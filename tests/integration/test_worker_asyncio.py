"""A worker with the asyncio pool, and what workers refuse when they start."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE

from taskmq import App, Config, ConfigError, JobState, RemoteError, current_task
from taskmq.testing import worker_for
from taskmq.worker import Worker


@pytest.fixture(params=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> App:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    return App(Config(transport=url, pool="asyncio", concurrency=200))


def test_two_hundred_jobs_sleep_for_a_second_in_less_than_three(app: App) -> None:
    @app.task
    async def nap() -> str:
        await asyncio.sleep(1)
        return threading.current_thread().name

    jobs: Any = nap.submit_many([()] * 200)
    began = time.monotonic()
    report = Worker(app).run_until_idle(PATIENCE)
    assert time.monotonic() - began < 3
    assert report.succeeded == 200
    assert {job.get() for job in jobs} == {"taskmq-asyncio"}


def test_drains_coroutines_and_plain_functions_together(app: App) -> None:
    @app.task
    async def coroutine(number: int) -> int:
        await asyncio.sleep(0)
        return number

    @app.task
    def plain(number: int) -> int:
        return number

    jobs: list[Any] = [*coroutine.submit_many([(n,) for n in range(500)])]
    jobs += plain.submit_many([(n,) for n in range(500, 600)])
    report = Worker(app).run_until_idle(PATIENCE)
    assert report.succeeded == report.processed == 600
    assert [job.get() for job in jobs] == list(range(600))


def test_a_timeout_ends_the_job(app: App, run_worker: Callable[..., Any]) -> None:
    @app.task(timeout=0.05)
    async def slow() -> None:
        await asyncio.sleep(PATIENCE)

    run_worker(app)
    job: Any = slow.delay()
    with pytest.raises(RemoteError, match=r"timeout of 0\.05 s is over"):
        job.get(PATIENCE)


def test_a_revoked_job_ends_within_two_seconds(app: App, run_worker: Callable[..., Any]) -> None:
    started = threading.Event()

    @app.task
    async def slow() -> None:
        started.set()
        await asyncio.sleep(PATIENCE)

    run_worker(app)
    job = slow.delay()
    assert started.wait(PATIENCE)
    began = time.monotonic()
    job.revoke()
    assert job.wait(PATIENCE) is JobState.REVOKED
    assert time.monotonic() - began < 2


def test_a_stop_lets_coroutines_end(app: App, run_worker: Callable[..., Any]) -> None:
    started = threading.Event()

    @app.task
    async def slow() -> str:
        started.set()
        await asyncio.sleep(0.1)
        return "done"

    running = run_worker(app)
    job: Any = slow.delay()
    assert started.wait(PATIENCE)
    running.worker.stop()
    assert running.result().succeeded == 1
    assert job.get() == "done"


def test_after_the_shutdown_timeout_coroutines_clean_up_and_go_back(
    app: App, run_worker: Callable[..., Any]
) -> None:
    started, ended = threading.Event(), []

    @app.task
    async def slow() -> None:
        started.set()
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            ended.append(current_task().id)

    running = run_worker(app, config=app.config.replace(shutdown_timeout=0.1))
    job = slow.delay()
    assert started.wait(PATIENCE)
    running.worker.stop()
    report = running.result()
    assert (report.interrupted, report.abandoned) == (1, 0)
    assert (job.state, ended) == (JobState.QUEUED, [job.id])


def test_no_thread_outlives_a_run(app: App) -> None:
    @app.task
    async def coroutine() -> None: ...

    @app.task
    def plain() -> None: ...

    before = set(threading.enumerate())
    coroutine.delay()
    plain.delay()
    Worker(app).run_until_idle(PATIENCE)
    end = time.monotonic() + PATIENCE
    while not set(threading.enumerate()) <= before and time.monotonic() < end:
        time.sleep(0.001)  # a side thread has been told to end, and is not waited for
    assert set(threading.enumerate()) <= before


def test_the_testing_worker_runs_coroutines(app: App) -> None:
    @app.task
    async def echo(number: int) -> int:
        return number

    with worker_for(app, pool="asyncio") as w:
        job: Any = echo.delay(5)
        w.run_until_idle(PATIENCE)
    assert job.get() == 5


# -- what a worker refuses -----------------------------------------------------------------------


def limited(pool: Any, **config: Any) -> App:
    app = App(Config(transport="memory://", pool=pool, **config))

    @app.task(name="mine.killable", hard_timeout=5)
    def killable() -> None: ...

    return app


@pytest.mark.parametrize("pool", ["solo", "threads", "asyncio"])
def test_a_hard_timeout_is_refused_where_nothing_can_be_killed(pool: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Worker(limited(pool)).run_until_idle(PATIENCE)
    assert str(caught.value) == (
        f"task 'mine.killable' has a hard_timeout, and the {pool} pool can kill nothing: "
        "use pool='processes', or unsupported_limits='warn' to go without the limit"
    )


@pytest.mark.parametrize("pool", ["solo", "threads", "asyncio"])
def test_a_setting_makes_it_one_loud_warning(pool: str, caplog: pytest.LogCaptureFixture) -> None:
    app = limited(pool, unsupported_limits="warn")
    job = app.tasks["mine.killable"].delay()
    with caplog.at_level(logging.WARNING, "taskmq.worker"):
        Worker(app).run_until_idle(PATIENCE)
    assert job.state is JobState.SUCCEEDED
    (warning,) = [r.getMessage() for r in caplog.records if "hard_timeout" in r.getMessage()]
    assert f"NO EFFECT in the {pool} pool" in warning
    assert "'mine.killable'" in warning


def test_the_processes_pool_takes_hard_timeouts_and_no_coroutines() -> None:
    app = limited("processes")

    @app.task(name="mine.later")
    async def later() -> None: ...

    with pytest.raises(ConfigError, match=r"^task 'mine\.later' is async def, which the processes"):
        Worker(app).run_until_idle(PATIENCE)
