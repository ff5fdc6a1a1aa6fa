"""Durable control, seen from workers: it holds for those that start later."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from taskmq import App, Config, JobState, current_task
from taskmq.worker import Worker

DEADLINE = 10.0
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
        assert send.get(DEADLINE) == "sent"


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


def test_a_waiting_worker_goes_on_at_once_with_the_queue(
    tmp_path: Path, run_worker: RunWorker
) -> None:
    with an_app(tmp_path) as app, an_app(tmp_path) as elsewhere:
        app.pause("email")
        job = elsewhere.tasks["tasks.send"].delay()
        run_worker(app, queues=["email", "default"])
        assert elsewhere.tasks["tasks.other"].delay().wait(DEADLINE) is JobState.SUCCEEDED
        assert job.state is JobState.QUEUED
        elsewhere.resume("email")
        assert job.get(DEADLINE) == "sent"


def test_a_paused_queue_lets_what_runs_end(run_worker: RunWorker) -> None:
    app = App(Config(transport="memory://", concurrency=1))
    begun, go = threading.Event(), threading.Event()

    @app.task(name="long")
    def long() -> int:
        begun.set()
        assert go.wait(DEADLINE)
        return current_task().attempt

    running = long.delay()
    run_worker(app)
    assert begun.wait(DEADLINE)
    app.pause("default")
    later = long.delay()
    go.set()
    assert running.get(DEADLINE) == 1
    assert Worker(app, name="second").run_until_idle(DEADLINE).succeeded == 0
    assert later.state is JobState.QUEUED
    app.resume("default")
    assert later.get(DEADLINE) == 1
