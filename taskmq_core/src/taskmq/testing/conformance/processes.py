"""Other processes on the store under test: real ones, on the real clock."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

import msgspec

from taskmq.clock import SystemClock
from taskmq.transport import Transport

from .checks import BrokenPromise, holds, present
from .subject import Subject

__all__ = [
    "PATIENCE",
    "Deadline",
    "Hold",
    "acknowledged_before_death",
    "drain",
    "enqueuer",
    "live",
    "reserve_and_die",
    "settle_and_die",
]

PATIENCE = 60.0


class Hold(msgspec.Struct, frozen=True):
    """One delivery as its holder saw it, in seconds of the machine's monotonic clock."""

    job_id: str
    began: float
    ended: float
    outcome: str


class Deadline:
    """Bounds a loop that waits for other processes."""

    def __init__(self, seconds: float = PATIENCE) -> None:
        self._ends = time.monotonic() + seconds

    def check(self, what: str) -> None:
        holds(time.monotonic() < self._ends, f"{what}, in time")

    def until(self, at: float | None) -> float:
        """Seconds until an instant, or a while, but not beyond the deadline."""
        wanted = 1.0 if at is None else max(0.0, at - time.time())
        return min(wanted, max(0.0, self._ends - time.monotonic()))


def live(subject: Subject) -> Transport:
    """A handle on the store that goes by the real time, as other processes do."""
    return subject.open_on(SystemClock())


def drain(subject: Subject, *, processes: int) -> list[list[Hold]]:
    """Let several processes empty queue ``q`` at the same time; what each of them held."""
    children = [_start(subject, "drain", str(number)) for number in range(processes)]
    for child in children:
        _next_line(child)
    for child in children:
        _go_on(child)
    decode = msgspec.json.Decoder(list[Hold]).decode
    return [decode(_output(child)) for child in children]


def reserve_and_die(subject: Subject, *, limit: int, lease: float) -> None:
    """Let a process reserve jobs of queue ``q``, and kill it while it holds them."""
    child = _start(subject, "hold", str(limit), str(lease))
    _next_line(child)
    _kill(child)


def acknowledged_before_death(subject: Subject, *, count: int) -> list[str]:
    """Kill a process in the middle of enqueueing; the ids that were acknowledged to it."""
    child = _start(subject, "produce")
    lines = [_next_line(child) for _ in range(count)]
    child.kill()
    lines += present(child.stdout, "a pipe from the process").readlines()
    child.communicate()
    return [line.strip() for line in lines if line.endswith("\n")]


def settle_and_die(subject: Subject, *, exchanges: int) -> None:
    """Kill a process in the middle of acking what it reserves of queue ``q``."""
    child = _start(subject, "ack")
    for _ in range(exchanges):
        _next_line(child)
    _kill(child)


@contextmanager
def enqueuer(subject: Subject) -> Iterator[Callable[[], None]]:
    """A process that enqueues one job each time it is told."""
    child = _start(subject, "produce-on-demand")
    _next_line(child)

    try:
        yield lambda: _go_on(child)
    finally:
        _kill(child)


def _start(subject: Subject, role: str, *arguments: str) -> subprocess.Popen[str]:
    if subject.spec is None:
        raise BrokenPromise(
            "other processes cannot open this store: run the suite with a URL or module:factory"
        )
    command = [sys.executable, "-m", "taskmq.testing.conformance.child"]
    return subprocess.Popen(
        [*command, subject.spec, subject.name, role, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )


def _next_line(child: subprocess.Popen[str]) -> str:
    stdout: IO[str] = present(child.stdout, "a pipe from the process")
    line = stdout.readline()
    if not line:
        raise BrokenPromise(f"a process on the store ended early, status {child.wait(PATIENCE)}")
    return line


def _go_on(child: subprocess.Popen[str]) -> None:
    stdin: IO[str] = present(child.stdin, "a pipe to the process")
    stdin.write("\n")
    stdin.flush()


def _output(child: subprocess.Popen[str]) -> str:
    try:
        output, _ = child.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        _kill(child)
        raise BrokenPromise(f"a process on the store was not done in {PATIENCE:g} s") from None
    if child.returncode:
        raise BrokenPromise(f"a process on the store failed, status {child.returncode}")
    return output


def _kill(child: subprocess.Popen[str]) -> None:
    child.kill()
    child.communicate()
