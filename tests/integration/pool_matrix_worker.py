"""The worker of pool_matrix.py: ``python pool_matrix_worker.py POOL FLAVOUR FOLDER``.

Every hook, in whatever process it runs, adds a line to the file ``hooks``; events go to the file
``events``. ``FLAVOUR`` is ``def`` or ``async def``: what the bodies of the tasks are.
"""

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from taskmq import App, Config, ConfigError, Retry, Task, TaskContext, current_task
from taskmq.errors import RejectJob
from taskmq.events import JsonLinesSink
from taskmq.hooks import WorkerHook
from taskmq.records import Dropped
from taskmq.states import JobState
from taskmq.worker import Worker
from taskmq.worker.signals import handle_signals

LIMIT = 0.1
TOO_LONG = 0.3
FOR_EVER = 60.0
TWICE = Retry(max_attempts=2, base=0.0)


class Notes:
    """Appends lines to files of a folder. Each is one write, so that processes may share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, file: str, *fields: object) -> None:
        line = json.dumps([*fields, os.getpid()]) + "\n"
        descriptor = os.open(self.folder / file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, line.encode())
        os.close(descriptor)


class Watched(Task[[], object]):
    """A task whose hooks leave word."""

    notes: Notes

    def __init__(self, name: str, body: Callable[[], object], **policy: Any) -> None:
        self.name = name
        vars(self).update(policy)
        self.run = body  # type: ignore[method-assign]  # one class for all the tasks of this file
        super().__init__()

    def before_start(self, ctx: TaskContext) -> None:
        self.notes("hooks", ctx.id, "B", "")
        if self.name == "before_start raises":
            raise ValueError

    def on_success(self, ctx: TaskContext, result: object) -> None:
        self.notes("hooks", ctx.id, "S", "")

    def on_failure(self, ctx: TaskContext, error: BaseException) -> None:
        self.notes("hooks", ctx.id, "F", type(error).__name__)

    def on_retry(self, ctx: TaskContext, error: BaseException | None) -> None:
        self.notes("hooks", ctx.id, "R", type(error).__name__)

    def after_return(self, ctx: TaskContext, state: JobState) -> None:
        self.notes("hooks", ctx.id, "A", str(state))


class Watcher(WorkerHook):
    def __init__(self, notes: Notes) -> None:
        self._notes = notes

    def on_ready(self, worker: Worker) -> None:
        self._notes("ready")

    def on_dropped(self, worker: Worker, dropped: Sequence[Dropped]) -> None:
        for job in dropped:
            self._notes("hooks", job.job_id, "D", job.reason)


# -- how attempts end ------------------------------------------------------------------------------


def fail() -> object:
    raise ValueError


def ask_for_retry() -> object:
    raise current_task().retry("busy", delay=0.0)


def reject() -> object:
    raise RejectJob("rejected")


def work_too_long() -> object:
    time.sleep(TOO_LONG)
    return None


def work_for_ever() -> object:
    time.sleep(FOR_EVER)
    return None


def obey() -> object:
    end = time.monotonic() + FOR_EVER
    while time.monotonic() < end:
        time.sleep(0.005)
        current_task().check_cancelled()
    return None


def die_once() -> object:
    return die() if current_task().reclaims == 0 else None


def die() -> object:
    os.kill(os.getpid(), signal.SIGKILL)
    return None


async def wait_too_long() -> object:
    await asyncio.sleep(TOO_LONG)
    return None


async def wait_for_ever() -> object:
    await asyncio.sleep(FOR_EVER)
    return None


def as_coroutine(body: Callable[[], object]) -> Callable[[], object]:
    async def run() -> object:
        return body()

    special = {work_too_long: wait_too_long, work_for_ever: wait_for_ever, obey: wait_for_ever}
    return special.get(body, run)


def tasks(pool: str, flavour: str) -> list[tuple[str, Callable[[], object], dict[str, Any]]]:
    kills = pool == "processes"
    interrupts = kills or flavour == "async def"
    killable = work_for_ever if kills else obey
    # It ends by itself only where nothing else ends it: no race, however busy the machine.
    soft = work_for_ever if interrupts else work_too_long
    hard = work_for_ever if kills else work_too_long
    return [
        ("returns", lambda: None, {}),
        ("result has no wire form", lambda: object(), {}),
        ("raises", fail, {}),
        ("raises, with retry", fail, {"retry": TWICE}),
        ("before_start raises", lambda: None, {}),
        ("asks for a retry", ask_for_retry, {"retry": TWICE}),
        ("rejects itself", reject, {}),
        ("timeout", soft, {"timeout": LIMIT}),
        ("timeout, with retry", soft, {"timeout": LIMIT, "retry": TWICE}),
        ("hard_timeout", hard, {"hard_timeout": LIMIT}),
        ("hard_timeout, with retry", hard, {"hard_timeout": LIMIT, "retry": TWICE}),
        ("killed once", die_once, {}),
        ("killed too often", die, {"max_deliveries": 1}),
        ("revoked while it runs", obey, {}),
        ("terminated while it runs", killable, {}),
        ("revoked before", lambda: None, {}),
        ("revoked unstarted", lambda: None, {}),
        ("blocks", obey, {}),
        ("expired before", lambda: None, {}),
    ]


def define(app: App, pool: str, flavour: str) -> None:
    for name, body, policy in tasks(pool, flavour):
        made = body if flavour == "def" else as_coroutine(body)
        app.register(Watched(name, made, **policy))
    app.task(name="quick")(lambda: None)


def refusal(pool: Any, task: Callable[[], Any], **policy: Any) -> str:
    """Why a worker with this task does not start; nothing if it does."""
    app = App(Config(pool=pool, start_method="fork", transport="memory://", concurrency=1))
    decorator: Any = app.task  # whose overloads want options one by one
    decorator(name="task", **policy)(task)
    worker = Worker(app)
    worker.stop()  # it has nothing to do
    try:
        worker.run()
    except ConfigError as error:
        return str(error)
    return ""


def main(pool: Any, flavour: str, folder: Path) -> None:
    notes = Watched.notes = Notes(folder)
    if not (folder / "refusals").exists():
        notes("refusals", refusal(pool, fail, hard_timeout=1), refusal(pool, wait_for_ever))
    settings: dict[str, Any] = {"pool": pool, "start_method": "fork", "concurrency": 4}
    app = App(
        Config(
            transport=f"sqlite:///{folder}/jobs.db",
            unsupported_limits="warn",
            park_ttl=0.2,
            **settings,
        )
    )
    define(app, pool, flavour)
    with (folder / "events").open("a") as events:
        app.add_sink(JsonLinesSink(events))
        worker = Worker(app, hook=Watcher(notes))
        with handle_signals(worker):
            worker.run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
