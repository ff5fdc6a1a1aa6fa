"""All processes of a container.

Each inherits a variable of its environment, which the kernel keeps for as long as the process
lives: children that outlive their parent are found as well, and programs that were started in the
container from outside.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

VARIABLE = "COMPAT_STANDIN"
POLL_SECONDS = 0.01


def members(name: str) -> list[int]:
    """The ids of the living processes of the container of this name."""
    wanted = f"{VARIABLE}={name}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def send(name: str, number: signal.Signals) -> None:
    """Send a signal to every process of the container."""
    for pid in members(name):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def freeze(name: str, seconds: float = 10.0) -> None:
    """Stop every process of the container, and those that they start meanwhile."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        send(name, signal.SIGSTOP)
        if all(is_stopped(pid) for pid in members(name)):
            return
        time.sleep(POLL_SECONDS)


def is_stopped(pid: int) -> bool:
    """Whether it is stopped, or gone."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return True
    return stat.rpartition(")")[2].split()[0] in "TZX"


def end(name: str, seconds: float = 10.0) -> None:
    """Kill every process of the container, and those that they start meanwhile."""
    deadline = time.monotonic() + seconds
    while members(name) and time.monotonic() < deadline:
        send(name, signal.SIGKILL)
        time.sleep(POLL_SECONDS)
