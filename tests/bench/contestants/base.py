"""What every contestant can be asked to do, and the one job that all of them run."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

Crew = Sequence["subprocess.Popen[bytes]"]
"""The worker processes of one run."""
NOT_INHERITED = "PYTHONDONTWRITEBYTECODE"
VARIABLE = "BENCH_ORDER"
PATIENCE = 120.0
STOP_WITHIN = 5.0
"""Seconds that a worker has for its end."""
RECORD = struct.Struct("<qd")


@dataclass(frozen=True)
class Order:
    """One run. Workers get it by their environment."""

    contestant: str
    workload: str
    store: str
    url: str
    """Of an empty store."""
    marks: str
    """The file that jobs write to."""
    jobs: int
    pool: str = "threads"
    concurrency: int = 8
    processes: int = 1
    seconds: float = 3.0
    """How long idle workers are watched."""
    probe: tuple[str, ...] = ()
    """A command that prints how many commands the store has been sent."""

    @classmethod
    def current(cls) -> Order:
        fields = json.loads(os.environ[VARIABLE])
        return cls(**{**fields, "probe": tuple(fields["probe"])})

    def environment(self) -> dict[str, str]:
        """Python may keep what it compiles, as it has for the peers, which are installed: a worker
        that compiles its modules at each start has another MiB."""
        inherited = {name: text for name, text in os.environ.items() if name != NOT_INHERITED}
        return {**inherited, VARIABLE: json.dumps(asdict(self))}


def mark(number: int) -> None:
    """The job: 16 bytes in one write to a file in memory, about a microsecond. It says which job
    ran and when, for the lost and the repeated to be counted."""
    os.write(_marks(), RECORD.pack(number, time.monotonic()))


def echo(number: int) -> int:
    """For a round trip, and the members of a fan-out."""
    return number


def increment(number: int) -> int:
    """A step of a chain."""
    return number + 1


def count(numbers: list[int]) -> int:
    """What comes behind a fan-out."""
    return len(numbers)


def _marks() -> int:
    global _file
    if _file is None:
        _file = os.open(Order.current().marks, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    return _file


_file: int | None = None


class Marks:
    """What jobs have written."""

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._path.touch()

    def count(self) -> int:
        return self._path.stat().st_size // RECORD.size

    def read(self) -> list[tuple[int, float]]:
        """The number of each job that ran, and the instant."""
        data = self._path.read_bytes()
        return list(RECORD.iter_unpack(data[: len(data) // RECORD.size * RECORD.size]))

    def wait_for(self, count: int, crew: Crew) -> None:
        """Raises ``RuntimeError`` if it takes too long, or the workers end."""
        deadline = time.monotonic() + PATIENCE
        while self.count() < count:
            if any(worker.poll() is not None for worker in crew):
                raise RuntimeError("a worker has ended")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.count()} of {count} jobs ran in {PATIENCE:g} s")
            time.sleep(0.001)


class Contestant:
    """A queue under test. A module of a contestant has one subclass, named ``Queue``."""

    def __init__(self, order: Order) -> None:
        self.order = order

    def submit(self, number: int) -> object:
        """Store one job that calls `mark`."""
        raise NotImplementedError

    def submit_many(self, numbers: range) -> None:
        """The same for many, by what the queue has for that."""
        for number in numbers:
            self.submit(number)

    def submit_urgent(self, number: int) -> object:
        """Store one job that goes before all that wait."""
        raise NotImplementedError

    def echo(self, number: int) -> int:
        """Have a job return its argument, and wait for that."""
        raise NotImplementedError

    def chain(self, length: int) -> int:
        """Jobs one after the other, from 0, each adding one to what it is given; the result."""
        raise NotImplementedError

    def fan_out(self, width: int) -> int:
        """So many echoes, and a job that counts them when all have run; its result."""
        raise NotImplementedError

    def commands(self) -> list[list[str]]:
        """What starts the workers."""
        raise NotImplementedError

    def python(self, *arguments: str) -> list[str]:
        return [sys.executable, *arguments]

    @contextmanager
    def workers(self) -> Iterator[Crew]:
        """The worker processes, while they are needed."""
        environment = self.order.environment()
        crew = [
            subprocess.Popen(command, env=environment, stdout=2, start_new_session=True)
            for command in self.commands()
        ]
        try:
            yield crew
        finally:
            for worker in crew:
                worker.terminate()
            for worker in crew:
                with suppress(subprocess.TimeoutExpired):
                    worker.wait(STOP_WITHIN)
                # With all that it has started: a child that is left takes the jobs of the next run.
                with suppress(ProcessLookupError):
                    os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
