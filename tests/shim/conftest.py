"""Celery programs of a few lines, run as their users run them: by the ``celery`` command."""

from __future__ import annotations

import json
import logging
import os
import queue
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE

from celery import Celery
from taskmq_celery import engine

TASKS = """
from celery import Celery
from celery.utils.log import get_task_logger

app = Celery("proj")
logger = get_task_logger(__name__)

@app.task
def add(x, y):
    return x + y
"""


@pytest.fixture
def app() -> Iterator[Celery]:
    """With one task and a store in memory, for tests of a worker's parts in this process."""
    made = Celery("t", broker="memory://", backend="rpc://", set_as_current=False)

    @made.task(name="t.add")  # type: ignore[untyped-decorator]  # Celery's carry no types
    def add(x: int, y: int) -> int:
        return x + y

    yield made
    made.close()


@pytest.fixture(autouse=True)
def memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Apps of one process share what is in memory: not those of two tests."""
    monkeypatch.setattr(engine, "_memories", {})


@contextmanager
def loggers_kept() -> Iterator[None]:
    """A worker configures the loggers of its process."""
    loggers = [logging.getLogger(name) for name in (None, "celery.task", "taskmq")]
    before = [(one.level, one.propagate, list(one.handlers)) for one in loggers]
    yield
    for one, (level, propagate, handlers) in zip(loggers, before, strict=True):
        one.setLevel(level)
        one.propagate = propagate
        one.handlers[:] = handlers


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    with loggers_kept():
        yield


@pytest.fixture(autouse=True, scope="module")
def logging_as_before_the_module() -> Iterator[None]:
    """Where all tests of a module share a worker."""
    with loggers_kept():
        yield


class Program:
    """A folder with modules in it, and a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"sqlite:///{folder}/jobs.db"
        self.environment = {
            **os.environ,
            "CELERY_BROKER_URL": self.url,
            "CELERY_RESULT_BACKEND": "rpc://",
            "PYTHONUNBUFFERED": "1",
        }
        self._workers: list[WorkerProcess] = []

    def write(self, source: str, name: str = "proj.py") -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))

    def add_to_tasks(self, source: str) -> None:
        """``proj.py`` with an app, a logger, a task `add`, and ``source``."""
        self.write(TASKS + textwrap.dedent(source))

    def celery(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "celery", *arguments],
            cwd=self.folder,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    def ask(self, code: str) -> Any:
        """Run client code, which prints one JSON value as its last line."""
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
        )
        return json.loads(done.stdout.splitlines()[-1])

    def worker(self, *options: str, app: str = "proj", **environment: str) -> WorkerProcess:
        """Start a worker; it may not be ready yet."""
        command = ["-A", app, *(["-q"] if "-q" in options else []), "worker"]
        command += [option for option in options if option != "-q"]
        started = WorkerProcess(self, command, {**self.environment, **environment})
        self._workers.append(started)
        return started

    def beat(self, *options: str, **environment: str) -> WorkerProcess:
        """Start ``celery beat -l INFO``."""
        return self.start("beat", "-l", "INFO", *options, **environment)

    def start(self, *command: str, **environment: str) -> WorkerProcess:
        """Start a command that goes on until it is stopped."""
        everything = {**self.environment, **environment}
        started = WorkerProcess(self, ["-A", "proj", *command], everything)
        self._workers.append(started)
        return started

    def ready_worker(self, *options: str, **more: str) -> WorkerProcess:
        """A worker with ``-l INFO`` that is about to take its first job."""
        started = self.worker("-l", "INFO", *options, **more)
        started.wait_for(r" ready\.$")
        return started

    def close(self) -> None:
        for worker in self._workers:
            worker.end()


class WorkerProcess:
    """``celery worker``. Standard output and error come in one stream, line by line."""

    def __init__(self, program: Program, command: list[str], environment: dict[str, str]) -> None:
        self.lines: list[str] = []
        self._news: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "celery", *command],
            cwd=program.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            for line in stream:
                self.lines.append(line.rstrip("\n"))
                self._news.put(line.rstrip("\n"))
        self._news.put(None)

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def wait_for(self, pattern: str) -> str:
        """The next line that matches."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                line = self._news.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"no line {pattern!r} in:\n{self.output}")
            if line is None:
                pytest.fail(f"ended without a line {pattern!r}:\n{self.output}")
            if re.search(pattern, line):
                return line

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        """Wait for its end."""
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        return code

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and wait for the end."""
        self.send(number)
        return self.exit_code()

    def kill(self) -> None:
        self.process.kill()
        self.exit_code()

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.exit_code()


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """A Celery program with one task, ``proj.add``; nothing runs yet."""
    made = Program(tmp_path)
    made.write(TASKS)
    yield made
    made.close()
