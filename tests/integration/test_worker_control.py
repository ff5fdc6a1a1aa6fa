"""Durable control, seen from workers: it holds for those that start later."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, TypeVar

import pytest
from msgspec.structs import replace
from tests.waiting import PATIENCE, wait_for

from taskmq import App, Config, JobState, current_task
from taskmq.envelope import Dependency
from taskmq.testing.wrapper import TransportWrapper
from taskmq.transport import MAX_YIELDS, Release, Reservation
from taskmq.worker import Worker
from taskmq.worker.pauses import Pauses

R = TypeVar("R")
RunWorker = Callable[..., Any]
TASKS = """
from taskmq import App, Config

app = App(Config(transport="sqlite:///jobs.db"))

@app.task(queue="email")
def send() -> str:
    return "sent"

@app.task
def other() -> None: ...
"""


def an_app(folder: Path) -> App:
    app = App(Config(transport=f"sqlite:///{folder}/jobs.db", pool="solo"))
    app.task(name="tasks.send", queue="email")(lambda: "sent")
    app.task(name="tasks.other")(lambda: None)
    return app


def a_worker_process(folder: Path) -> None:
    """One that ends when nothing is left to do for it."""
    (folder / "tasks.py").write_text(TASKS)
    command = [sys.executable, "-m", "taskmq", "worker", "--app", "tasks:app", "--until-idle"]
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    subprocess.run(command, cwd=folder, env=env, check=True, timeout=30, capture_output=True)


def test_pause_then_a_new_worker_waits(tmp_path: Path) -> None:
    with an_app(tmp_path) as app:
        app.pause("email", reason="the provider is down")
        send, other = app.tasks["tasks.send"].delay(), app.tasks["tasks.other"].delay()
        a_worker_process(tmp_path)
        assert (send.state, other.state) == (JobState.QUEUED, JobState.SUCCEEDED)
        app.resume("email")
        a_worker_process(tmp_path)
        assert send.get(PATIENCE) == "sent"


def test_revoke_with_no_worker_alive_holds_for_the_next_worker(tmp_path: Path) -> None:
    with an_app(tmp_path) as app:
        jobs = [app.tasks["tasks.send"].delay() for _ in range(3)]
        other = app.tasks["tasks.other"].delay()
        assert app.transport.workers() == []
        assert app.revoke(task="tasks.send") == 3
        assert other.revoke()
    with an_app(tmp_path) as app:
        a_worker_process(tmp_path)
        for job in (*jobs, other):
            record = app.result(job.id).record
            assert record is not None
            assert (record.state, record.deliveries) == (JobState.REVOKED, 0)


@pytest.mark.parametrize(
    "selection", [{"task": "tasks.send"}, {"queue": "email"}, {"key": "k"}, {"workflow": "w"}]
)
def test_what_is_revoked_by_what_it_is_holds_for_the_next_worker(
    tmp_path: Path, selection: dict[str, Any]
) -> None:
    with an_app(tmp_path) as app:
        send, other = app.tasks["tasks.send"], app.tasks["tasks.other"]
        first = app.submit(replace(send.call().options(key="k"), workflow="w"))
        after = other.call()
        after = replace(after, after=(Dependency(first.id),), workflow="w")
        second = app.submit(after)
        free = other.delay()
        expected = 2 if "workflow" in selection else 1
        assert app.revoke(**selection, by="ann") == expected
    with an_app(tmp_path) as app:
        a_worker_process(tmp_path)
        ends = [app.result(job.id).state for job in (first, second, free)]
        follows = JobState.REVOKED if "workflow" in selection else JobState.SKIPPED
        assert ends == [JobState.REVOKED, follows, JobState.SUCCEEDED]
        told = [(job.id, job.revoked_by) for job in app.revoked(**selection)]
        assert told == [(first.id, "ann"), (second.id, "ann")][:expected]


def test_a_waiting_worker_goes_on_at_once_with_the_queue(
    tmp_path: Path, run_worker: RunWorker
) -> None:
    with an_app(tmp_path) as app, an_app(tmp_path) as elsewhere:
        app.pause("email")
        job = elsewhere.tasks["tasks.send"].delay()
        run_worker(app, queues=["email", "default"])
        assert elsewhere.tasks["tasks.other"].delay().wait(PATIENCE) is JobState.SUCCEEDED
        assert job.state is JobState.QUEUED
        elsewhere.resume("email")
        assert job.get(PATIENCE) == "sent"


def test_a_paused_queue_lets_what_runs_end(run_worker: RunWorker) -> None:
    app = App(Config(transport="memory://", concurrency=1))
    begun, go = threading.Event(), threading.Event()

    @app.task(name="long")
    def long() -> int:
        begun.set()
        assert go.wait(PATIENCE)
        return current_task().attempt

    running = long.delay()
    run_worker(app)
    assert begun.wait(PATIENCE)
    app.pause("default")
    later = long.delay()
    go.set()
    assert running.get(PATIENCE) == 1
    assert Worker(app, name="second").run_until_idle(PATIENCE).succeeded == 0
    assert later.state is JobState.QUEUED
    app.resume("default")
    assert later.get(PATIENCE) == 1


# -- what a worker has fetched and not started ---------------------------------------------------


class Backlog:
    """Jobs of the queue ``email`` that a worker holds behind one that blocks its only slot.

    Usually it gives such jobs back within 40 ms, so these have been given back so often that it
    keeps them."""

    def __init__(self, app: App) -> None:
        self.app = app
        self.begun, self.go = threading.Event(), threading.Event()
        self.ran: list[int] = []
        quick = app.task(name="quick", priority=9)(lambda: None)
        block = app.task(name="block", priority=5)(self._block)
        send = app.task(name="send", queue="email")(self.ran.append)
        self.jobs = send.submit_many([(number,) for number in range(5)])
        give_back_often(app, [job.id for job in self.jobs])
        quick.submit_many([()] * 50)  # so that the worker fetches many at once
        self.blocking = block.delay()

    def _block(self) -> None:
        self.begun.set()
        assert self.go.wait(PATIENCE)

    def states(self) -> set[JobState]:
        return {job.state for job in self.jobs}


def give_back_often(app: App, ids: list[str]) -> None:
    wanted = Reservation(queues={"email": 1}, worker="w", lease=60.0, limit=len(ids), jobs=ids)
    for _ in range(MAX_YIELDS):
        app.transport.settle([Release(delivery) for delivery in app.transport.reserve(wanted)])


@pytest.fixture(params=["memory://", "sqlite:///{folder}/jobs.db"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param).format(folder=tmp_path)


@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_a_pause_recalls_what_has_not_started(
    url: str, pool: Literal["threads", "solo"], run_worker: RunWorker
) -> None:
    with App(Config(transport=url, pool=pool, concurrency=1)) as app:
        backlog = Backlog(app)
        running = run_worker(app)
        assert backlog.begun.wait(PATIENCE)
        assert backlog.states() == {JobState.RUNNING}  # held, unstarted
        app.pause("email")
        if pool == "threads":
            wait_for(lambda: backlog.states() == {JobState.QUEUED})
        else:  # the worker's loop is inside the job
            session: Any = running.worker._session
            wait_for(lambda: session.keeper.recalls)
        assert backlog.blocking.state is JobState.RUNNING
        backlog.go.set()
        assert backlog.blocking.wait(PATIENCE) is JobState.SUCCEEDED
        wait_for(lambda: backlog.states() == {JobState.QUEUED})
        assert backlog.ran == []
        app.resume("email")
        assert [job.wait(PATIENCE) for job in backlog.jobs] == [JobState.SUCCEEDED] * 5
        assert backlog.ran == [0, 1, 2, 3, 4]
        assert {job.info["deliveries"] for job in backlog.jobs} == {1}


def test_a_revocation_recalls_what_has_not_started(url: str, run_worker: RunWorker) -> None:
    with App(Config(transport=url, concurrency=1)) as app:
        backlog = Backlog(app)
        run_worker(app)
        assert backlog.begun.wait(PATIENCE)
        assert app.revoke(queue="email", by="ann") == 5
        wait_for(lambda: backlog.states() == {JobState.REVOKED})
        assert backlog.blocking.state is JobState.RUNNING
        backlog.go.set()
        assert backlog.blocking.wait(PATIENCE) is JobState.SUCCEEDED
        assert backlog.ran == []


def test_pauses_are_read_only_while_something_waits_for_a_slot(run_worker: RunWorker) -> None:
    reads: list[str] = []

    class Counting(TransportWrapper):
        def around(self, operation: str, call: Callable[[], R]) -> R:
            reads.append(operation)
            return call()

    inner = App(Config(transport="memory://", concurrency=1))
    app = App(inner.config, transport=Counting(inner.transport))
    backlog = Backlog(app)
    session: Any = run_worker(app).worker._session
    pauses = Pauses(app.transport, session.pool, session.keeper)
    assert backlog.begun.wait(PATIENCE)
    pauses.look()
    assert "paused" in reads
    backlog.go.set()
    assert [job.wait(PATIENCE) for job in backlog.jobs] == [JobState.SUCCEEDED] * 5
    reads.clear()
    pauses.look()
    assert "paused" not in reads
