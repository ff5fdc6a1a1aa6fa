"""The app of the worker processes in these tests: ``fleet_app:app``, in whatever directory it is.

Files there are how tests and tasks talk: ``NAME.PID.started`` and so on.
"""

import ctypes
import hashlib
import os
import resource
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from taskmq import App, Config, current_task
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


URL = f"sqlite:///{HERE}/jobs.db?busy_timeout=0.2"
app = App(Config(transport=URL), transport=Store(open_transport(URL, clock=SystemClock())))
app.add_sink(Glue())


def note(name: str, what: str) -> None:
    (HERE / f"{name}.{os.getpid()}.{what}").touch()


@app.task
def hold(name: str, seconds: float) -> int:
    """Takes its time, or until there is a file ``NAME.go``. Notes a lost lease and goes on."""
    note(name, "started")
    end = time.monotonic() + seconds
    while time.monotonic() < end and not (HERE / f"{name}.go").exists():
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
def add(x: int, y: int) -> int:
    return x + y


@app.task
def stop_when_told(name: str) -> None:
    note(name, "started")
    try:
        while True:
            current_task().check_cancelled()
            time.sleep(0.01)
    finally:
        note(name, "stopped")
