"""Schedulers as processes on one store, and what they were seen to do."""

import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from tests.waiting import PATIENCE, wait_for

from taskmq import App, Config
from taskmq.envelope import load
from taskmq.records import JobFilter
from taskmq.scheduler import DUE_AT, SCHEDULE

APP = Path(__file__).with_name("schedule_app.py")
TASKMQ = [sys.executable, "-m", "taskmq"]
LEADS = "this scheduler leads"
FOLLOWS = "another scheduler leads now"


class Beat:
    """``taskmq beat`` as a process."""

    def __init__(self, folder: Path, number: int, command: str = "beat") -> None:
        self.log = folder / f"beat-{number}.log"
        with self.log.open("wb") as stream:
            self.process = subprocess.Popen(
                [*TASKMQ, *command.split()],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
            )

    def said(self, text: str) -> int:
        return self.log.read_text().count(text)

    def wait_for(self, text: str, times: int = 1) -> float:
        """Until its log has it; the instant, on the monotonic clock."""
        wait_for(lambda: self.said(text) >= times, f"{text!r} in:\n{self.log.read_text()}")
        return time.monotonic()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


class Ground:
    """A store, and schedulers on it."""

    def __init__(self, folder: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        shutil.copy(APP, folder)
        monkeypatch.setenv("TASKMQ_TRANSPORT", url)
        monkeypatch.setenv("TASKMQ_APP", "schedule_app")
        self.app = App(Config(transport=url))
        self.app.task(name="schedule_app.note")(lambda: None)
        self.beats: list[Beat] = []

    def start(self, command: str = "beat") -> Beat:
        beat = Beat(self.folder, len(self.beats), command)
        self.beats.append(beat)
        beat.wait_for(" ready: ")
        return beat

    def pair(self) -> tuple[Beat, Beat]:
        """The one that leads, and the other."""
        first = self.start()
        first.wait_for(LEADS)
        return first, self.start()

    def cli(self, *arguments: str) -> float:
        """Run a command; when it had ended."""
        run = subprocess.run([*TASKMQ, *arguments], cwd=self.folder, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        return time.time()

    def ticks(self) -> list[float]:
        """The instants of the jobs of ``tick`` that there are."""
        jobs = self.app.transport.find(JobFilter(limit=100_000))
        headers = [load(job.envelope).headers for job in jobs]
        return sorted(each[DUE_AT] for each in headers if each[SCHEDULE] == "tick")

    def wait_for_ticks(self, more: int) -> None:
        wanted = len(self.ticks()) + more
        wait_for(lambda: len(self.ticks()) >= wanted, f"{wanted} ticks")

    def check_ticks(self) -> int:
        """Every half second exactly one job; how many."""
        ticks = self.ticks()
        assert Counter(ticks).most_common(1)[0][1] == 1
        assert {round(b - a, 3) for a, b in pairwise(ticks)} == {0.5}
        return len(ticks)

    def enqueued_at(self, name: str) -> list[float]:
        """When each job of a schedule was."""
        jobs = self.app.transport.find(JobFilter(limit=100_000))
        found = [job for job in jobs if load(job.envelope).headers[SCHEDULE] == name]
        return sorted(job.enqueued_at for job in found)

    def wait_for_job(self, name: str) -> float:
        """Of a schedule; when the first was enqueued."""
        wait_for(lambda: self.enqueued_at(name) != [], f"run of {name!r}")
        return self.enqueued_at(name)[0]

    def close(self) -> None:
        for beat in self.beats:
            if beat.process.poll() is None:
                beat.process.send_signal(signal.SIGCONT)
                beat.process.kill()
            beat.process.wait(PATIENCE)
        self.app.close()
