"""A worker with the processes pool, in the test's main thread: as a program would run it."""

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE, wait_for

from taskmq import App, Config, ConfigError, JobState, current_task
from taskmq.worker import Worker, WorkerHook


class Meanwhile(WorkerHook):
    """Runs something beside the worker, and stops it then. Its thread begins when the children
    have begun, as threads of a program should."""

    def __init__(self, what: Callable[[Worker], None]) -> None:
        self.errors: list[BaseException] = []
        self._what = what

    def on_ready(self, worker: Worker) -> None:
        self._thread = threading.Thread(target=self._run, args=(worker,))
        self._thread.start()

    def _run(self, worker: Worker) -> None:
        try:
            self._what(worker)
        except BaseException as error:
            self.errors.append(error)
        finally:
            worker.stop()

    def on_stop(self, worker: Worker, report: Any) -> None:
        self._thread.join()


def run_with(worker_app: App, what: Callable[[Worker], None], **config: Any) -> None:
    hook = Meanwhile(what)
    Worker(worker_app, hook=hook, config=worker_app.config.replace(**config)).run()
    for error in hook.errors:
        raise error


@pytest.fixture
def app(tmp_path: Path) -> App:
    app = App(Config(transport=f"sqlite:///{tmp_path}/jobs.db", pool="processes", concurrency=2))

    @app.task(name="pid")
    def pid() -> int:
        return os.getpid()

    @app.task(name="meet")
    def meet(count: int) -> None:
        """Returns when so many of these run at once."""
        (tmp_path / f"here-{os.getpid()}").touch()
        wait_for(lambda: len(list(tmp_path.glob("here-*"))) >= count)

    @app.task(name="sleep")
    def sleep(seconds: float) -> None:
        (tmp_path / "sleeps").touch()
        time.sleep(seconds)

    return app


def test_drains_a_queue(app: App) -> None:
    results = app.tasks["pid"].submit_many([()] * 300)
    report = Worker(app).run_until_idle(PATIENCE)
    assert report.succeeded == 300
    assert os.getpid() not in {result.get() for result in results}


def test_slots_grow_and_shrink_while_it_runs(app: App) -> None:
    def grow(worker: Worker) -> None:
        assert worker.grow(2) == 4
        jobs = app.tasks["meet"].submit_many([(4,)] * 4)
        assert [job.wait(PATIENCE) for job in jobs] == [JobState.SUCCEEDED] * 4
        assert worker.shrink(3) == 1
        with pytest.raises(ConfigError, match="at least 1 slot"):
            worker.shrink()
        assert app.tasks["pid"].delay().get(PATIENCE)

    run_with(app, grow)


def test_scales_itself_to_the_load(app: App) -> None:
    def load(worker: Worker) -> None:
        jobs = app.tasks["meet"].submit_many([(3,)] * 3)
        assert [job.wait(PATIENCE) for job in jobs] == [JobState.SUCCEEDED] * 3

    run_with(app, load, autoscale=(1, 3))


def test_a_revoke_with_terminate_kills_what_runs(app: App, tmp_path: Path) -> None:
    def terminate(worker: Worker) -> None:
        job = app.tasks["sleep"].delay(60)
        while not (tmp_path / "sleeps").exists():
            time.sleep(0.002)
        assert job.revoke(terminate=True)
        assert job.wait(PATIENCE) is JobState.REVOKED
        assert app.tasks["pid"].delay().get(PATIENCE)

    run_with(app, terminate)


def test_a_revoked_job_in_a_child_is_asked_to_stop(app: App, tmp_path: Path) -> None:
    @app.task(name="obey")
    def obey() -> None:
        (tmp_path / "obeys").touch()
        while True:
            time.sleep(0.005)
            current_task().check_cancelled()

    def revoke(worker: Worker) -> None:
        job = obey.delay()
        while not (tmp_path / "obeys").exists():
            time.sleep(0.002)
        job.revoke()
        assert job.wait(PATIENCE) is JobState.REVOKED

    run_with(app, revoke)
