"""Worker processes that are killed, and replaced. Their tasks note in a file what they do."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

__all__ = ["DEADLINE", "Crew"]

LEASE = 1.0
DEADLINE = 120.0
TOP = Path(__file__).parents[2]


class Crew:
    """Worker processes on one store, with the app of a source; who dies is replaced."""

    def __init__(self, folder: Path, url: str, app: str) -> None:
        self.folder = folder
        (folder / "crew_app.py").write_text(app)
        self._environ = {
            **os.environ,
            "TASKMQ_TRANSPORT": url,
            "PYTHONPATH": f"{TOP}:{folder}",
        }
        self.alive: list[subprocess.Popen[bytes]] = []
        self.deaths = 0
        self._options: dict[int, tuple[str, ...]] = {}

    def hire(self, *options: str) -> None:
        common = ("--lease", str(LEASE), "-c", "2", "-P", "threads", "--log-level", "critical")
        command = [sys.executable, "-m", "taskmq", "-A", "crew_app:app", "worker", *common]
        worker = subprocess.Popen([*command, *options], cwd=self.folder, env=self._environ)
        self.alive.append(worker)
        self._options[worker.pid] = options

    def kill(self, chance: random.Random) -> None:
        victim = self.alive.pop(chance.randrange(len(self.alive)))
        victim.send_signal(signal.SIGKILL)
        victim.wait(DEADLINE)
        self.deaths += 1

    def replace_the_dead(self) -> None:
        for worker in [each for each in self.alive if each.poll() is not None]:
            self.alive.remove(worker)
            self.deaths += 1
            self.hire(*self._options[worker.pid])

    def effects(self) -> list[str]:
        file = self.folder / "effects"
        return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []

    def wait(self, done: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + DEADLINE
        while not done():
            assert time.monotonic() < end, f"{what} did not come"
            self.replace_the_dead()
            time.sleep(0.02)

    def close(self) -> None:
        for worker in self.alive:
            worker.kill()
            worker.wait(DEADLINE)
