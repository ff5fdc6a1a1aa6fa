"""What the acts of the demo stand on: folders, environments, and processes that are ended."""

from __future__ import annotations

import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BIN = Path(sys.executable).parent
LEASE = 3.0
"""Seconds after which another worker may have what a dead one held."""
PATIENCE = 30.0
"""Seconds that anything here may take."""

Listener = Callable[[str, str], None]
"""Told the worker's name and the line."""


class Failed(Exception):
    """Something that the demo needs did not come about."""


@dataclass
class Place:
    """A folder with a program in it, and a database file of its own."""

    folder: Path
    database: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        """The process environment: broker and results are the one file, nothing else is set."""
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("CELERY", "TASKMQ", "PYTHON"))
        }
        url = f"sqlite:///{self.database}"
        told = {"CELERY_BROKER_URL": url, "CELERY_RESULT_BACKEND": url}
        quiet = {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}
        return {**inherited, **told, **quiet, **self.extra}

    def ask(self, *command: str) -> Any:
        """Run a client program of this place; what it printed, which is JSON.

        Raises `Failed` with the last line of what it complained about.
        """
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
        )
        if done.returncode:
            raise Failed((done.stderr.strip().splitlines() or ["no reason given"])[-1])
        return json.loads(done.stdout)


class Worker:
    """A ``celery worker`` process, whose output goes line by line to ``listener``."""

    def __init__(self, place: Place, app: str, listener: Listener, *options: str) -> None:
        name = options[options.index("-n") + 1].partition("@")[0] if "-n" in options else app
        self.name = name
        self.command = ["celery", "-A", app, "worker", "-l", "INFO", *options]
        self.lines: list[str] = []
        self._listener = listener
        self._news: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [str(BIN / "celery"), *self.command[1:]],
            cwd=place.folder,
            env=place.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        stream = self._process.stdout
        if stream is not None:
            for line in stream:
                text = line.rstrip()
                self.lines.append(text)
                self._listener(self.name, text)
                self._news.put(text)
        self._news.put(None)

    def wait_for(self, pattern: str) -> str:
        """The next line that matches. Raises `Failed` if the process ends before, or in time."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                line = self._news.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise Failed(f"no line {pattern!r} from `{' '.join(self.command)}`") from None
            if line is None:
                last = next((one for one in reversed(self.lines) if one), "it said nothing")
                raise Failed(f"`{' '.join(self.command)}` ended: {last}")
            if re.search(pattern, line):
                return line

    def kill(self) -> None:
        """SIGKILL: no handler, no goodbye."""
        self._process.kill()
        self._process.wait(PATIENCE)
        self._reader.join(PATIENCE)

    def stop(self) -> int:
        """SIGTERM, as a supervisor does; the exit status."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            status = self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Failed(f"`{' '.join(self.command)}` does not stop") from None
        self._reader.join(PATIENCE)
        return status

    def end(self) -> None:
        """Make sure that it is gone, however it stands."""
        if self._process.poll() is None:
            self.kill()
        if self._process.stdout is not None:
            self._process.stdout.close()


class Stage:
    """Keeps account of the workers, so that none is left behind."""

    def __init__(self, root: Path, listener: Listener, happened: Callable[[str], None]) -> None:
        self.root = root
        self.happened = happened
        self._listener = listener
        self._workers: list[Worker] = []

    def place(self, folder: Path, **extra: str) -> Place:
        return Place(folder, folder / "demo.db", extra)

    def worker(self, place: Place, app: str, *options: str) -> Worker:
        """Start a worker; it may not be ready yet."""
        started = Worker(place, app, self._listener, *options)
        self._workers.append(started)
        return started

    def clear(self) -> None:
        for worker in self._workers:
            worker.end()
