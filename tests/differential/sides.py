"""Who runs the canvases: the real Celery, and the shim on one of its stores."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests import services

from taskmq.worker import Worker
from taskmq_celery.engine import engine_for

from .canvases import Canvas
from .observed import Outcome, run_batch
from .program import BACKEND, BROKER, LOG, SLOTS, make_app

TOP = Path(__file__).parents[2]
PATIENCE = 900.0


class Side(Protocol):
    """Runs up to `SLOTS` canvases at a time."""

    def run(self, canvases: Sequence[Canvas]) -> list[Outcome]: ...


class Shim:
    """The shim, with a worker in this thread."""

    def __init__(self, app: Any, log: Path) -> None:
        self._app, self._log = app, log

    def run(self, canvases: Sequence[Canvas]) -> list[Outcome]:
        return run_batch(self._app, canvases, self._log, self._work)

    def _work(self) -> None:
        engine = engine_for(self._app, pool="solo")
        Worker(engine, queues=["celery"], name="w1@box").run_until_idle(PATIENCE)


@contextlib.contextmanager
def shim(broker: str, backend: str, folder: Path, slots: int = SLOTS) -> Iterator[Shim]:
    log = folder / "ran.jsonl"
    app = make_app(broker, backend, log, slots)
    yield Shim(app, log)
    app.close()


class Celery:
    """The real Celery: a process that applies canvases, and its worker."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, canvases: Sequence[Canvas]) -> list[Outcome]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(canvases) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the real Celery has ended, with status {self._process.wait()}")
        outcomes: list[Outcome] = json.loads(line)
        return outcomes


@contextlib.contextmanager
def celery(python: Path, folder: Path) -> Iterator[Celery]:
    """With ``python``, an interpreter that has Celery; on a redis-server of its own."""
    with services.Redis() as redis, contextlib.ExitStack() as stack:
        environment = {
            **os.environ,
            BROKER: redis.url,
            BACKEND: redis.url,
            LOG: str(folder / "celery.jsonl"),
        }
        worker = [str(python), "-m", "celery", "-q", "-A", "tests.differential.program", "worker"]
        worker += ["-P", "solo", "-l", "CRITICAL"]
        worker += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        stack.enter_context(running(worker, environment))
        serve = [str(python), "-m", "tests.differential.serve"]
        yield Celery(stack.enter_context(running(serve, environment)))


@contextlib.contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process that is ended afterwards."""
    process = subprocess.Popen(
        command,
        cwd=TOP,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
