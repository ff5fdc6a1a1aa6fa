"""The apps of the worker processes in these tests: ``fleet_app:app``, and ``fleet_app:coroutines``
for the asyncio pool alone. The store is that of ``TASKMQ_TRANSPORT``.

Files in the working directory are how tests and tasks talk: ``NAME.PID.started`` and so on.
"""

import asyncio
import ctypes
import hashlib
import os
import resource
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from taskmq import App, Config, Retry, current_task
from taskmq.clock import SystemClock
from taskmq.errors import TransportUnavailable
from taskmq.events import Event, TransportFailed
from taskmq.plugins import open_transport
from taskmq.testing import TransportWrapper

HERE = Path.cwd()
R = TypeVar("R")


class Store(TransportWrapper):
    """Does not answer while there is a file ``outage``."""

    def around(self, operation: str, call: Callable[[], R]) -> R:
        if (HERE / "outage").exists():
            raise TransportUnavailable("outage")
        return call()


class Glue:
    """An event sink that does not come back if there is a file ``stuck``."""

    def handle(self, events: Sequence[Event]) -> None:
        if (HERE / "stuck").exists() and any(isinstance(e, TransportFailed) for e in events):
            time.sleep(60)


def make_app() -> App:
    config = Config.from_env()
    made = App(config, transport=Store(open_transport(config.transport, clock=SystemClock())))
    made.add_sink(Glue())
    return made


app, coroutines = make_app(), make_app()


def note(name: str, what: str) -> None:
    (HERE / f"{name}.{os.getpid()}.{what}").touch()


@app.task
def hold(name: str, seconds: float) -> int:
    """Takes its time, or until there is a file ``NAME.go``, or ``NAME.PID.go`` for this process.
    Notes a lost lease and goes on."""
    note(name, "started")
    end = time.monotonic() + seconds
    go = (HERE / f"{name}.go", HERE / f"{name}.{os.getpid()}.go")
    while time.monotonic() < end and not any(map(Path.exists, go)):
        time.sleep(0.01)
        if current_task().lease_lost:
            note(name, "lost")
    note(name, "ended")
    return os.getpid()


@app.task
def grab(name: str, seconds: float) -> int:
    """Holds the interpreter: no other thread of the process runs meanwhile."""
    note(name, "started")
    ctypes.PyDLL(None).usleep(int(seconds * 1_000_000))
    return os.getpid()


@app.task
def compute(name: str) -> None:
    """Long in code that neither holds the interpreter nor comes back for a signal."""
    note(name, "started")
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 200_000_000)


@app.task
def exhaust(name: str) -> None:
    """Has every file handle of the process for a while."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
    handles = []
    try:
        while True:
            handles.append(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        os.close(handles.pop())
        note(name, "started")
        handles.append(os.open(os.devnull, os.O_RDONLY))
    end = time.monotonic() + 10
    while time.monotonic() < end and not (HERE / f"{name}.go").exists():
        time.sleep(0.01)
    for handle in handles:
        os.close(handle)


@app.task
def record(number: int) -> int:
    """Four milliseconds. Notes its number, its process and the time in the file ``records``."""
    line = f"{number} {os.getpid()} {time.monotonic()}\n".encode()
    descriptor = os.open(HERE / "records", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line)  # one write, appended whole, whoever else writes
    os.close(descriptor)
    time.sleep(0.004)
    return number


@app.task(max_deliveries=3)
def die(name: str) -> None:
    """Kills its process, every time."""
    note(name, "started")
    os.kill(os.getpid(), signal.SIGKILL)


@app.task(retry=Retry(max_attempts=2))
def retry_once(name: str, delay: float) -> int:
    """Asks for another attempt, and says which one it was that succeeded."""
    attempt = current_task().attempt
    note(name, f"attempt-{attempt}")
    if attempt == 1:
        raise current_task().retry("not yet", delay=delay)
    return attempt


@app.task(rate_limit="1/h")
def limited(number: int) -> int:
    return number


@coroutines.task
async def nap(seconds: float) -> float:
    """When it was over, on the monotonic clock."""
    await asyncio.sleep(seconds)
    return time.monotonic()


@app.task
def add(x: int, y: int) -> int:
    return x + y


@app.task
def swell(size: int) -> str:
    """A result of ``size`` bytes."""
    return "x" * size


@app.task
def stop_when_told(name: str) -> None:
    note(name, "started")
    try:
        while True:
            current_task().check_cancelled()
            time.sleep(0.01)
    finally:
        note(name, "stopped")
