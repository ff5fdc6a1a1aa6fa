"""Whole families of processes: a server, its children and theirs. Standard library only."""

from __future__ import annotations

import contextlib
import os
import signal
from pathlib import Path


def descendants(root: int) -> list[int]:
    """The process and all below it, parents first."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = path.read_text(errors="replace").rpartition(")")[2].split()
            children.setdefault(int(fields[1]), []).append(int(path.parent.name))
    family = [root]
    for each in family:
        family += children.get(each, [])
    return family


def signal_family(root: int, number: signal.Signals) -> None:
    """Send a signal to the process and to all below it; those that are gone are no error.

    The root is stopped first, so that it starts nobody new meanwhile.
    """
    if number is not signal.SIGCONT:
        _send(root, signal.SIGSTOP)
    for each in descendants(root):
        _send(each, number)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
