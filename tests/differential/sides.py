"""Who runs the canvases: the real Celery, and the shim on one of its stores."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from tests import services

from taskmq.worker import Worker
from taskmq_celery.engine import engine_for

from .canvases import Canvas
from .observed import STUCK, Outcome, run_batch
from .program import BACKEND, BROKER, LOG, SLOTS, make_app

TOP = Path(__file__).parents[2]
PATIENCE = 900.0
NOTHING: Canvas = {"is": "group", "of": []}


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


Start = Callable[[contextlib.ExitStack], subprocess.Popen[str]]


class Celery:
    """The real Celery: a process that applies canvases, and its worker. Of a canvas in which its
    worker hangs the outcome is `STUCK`; the others are run again, by new processes."""

    def __init__(self, start: Start) -> None:
        self._start, self._stack = start, contextlib.ExitStack()
        self._process = start(self._stack)

    def run(self, canvases: Sequence[Canvas]) -> list[Outcome]:
        answer = self._ask(canvases)
        if isinstance(answer, list):
            return answer
        self.close()
        self._process = self._start(self._stack)
        slot = answer["stuck"]
        outcomes = self.run([*canvases[:slot], NOTHING, *canvases[slot + 1 :]])
        return [*outcomes[:slot], STUCK, *outcomes[slot + 1 :]]

    def close(self) -> None:
        self._stack.close()

    def _ask(self, canvases: Sequence[Canvas]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(canvases) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the real Celery has ended, with status {self._process.wait()}")
        return json.loads(line)


@contextlib.contextmanager
def celery(python: Path, folder: Path) -> Iterator[Celery]:
    """With ``python``, an interpreter that has Celery; on a redis-server of its own."""
    with services.Redis() as redis:
        environment = {
            **os.environ,
            BROKER: redis.url,
            BACKEND: redis.url,
            LOG: str(folder / "celery.jsonl"),
        }
        worker = [str(python), "-m", "celery", "-q", "-A", "tests.differential.program", "worker"]
        worker += ["-P", "solo", "-l", "CRITICAL"]
        worker += ["--without-gossip", "--without-mingle", "--without-heartbeat"]
        serve = [str(python), "-m", "tests.differential.serve"]

        def start(stack: contextlib.ExitStack) -> subprocess.Popen[str]:
            redis.cli("FLUSHALL")
            stack.enter_context(running(worker, environment))
            return stack.enter_context(running(serve, environment))

        with contextlib.closing(Celery(start)) as side:
            yield side


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
