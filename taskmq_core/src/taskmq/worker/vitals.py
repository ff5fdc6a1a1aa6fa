"""Whether a process is still there, known for certain or not at all.

A number alone says nothing: numbers are used again, and mean different processes in different
containers. So a process is marked by the start of its machine, its namespaces and its own start,
all of which Linux tells. Where a mark cannot be had there is none, and nobody is thought dead.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from taskmq.records import ProcessMark

__all__ = ["has_ended", "mark_of_this_process"]

PROC = Path("/proc")
NAMESPACES = ("pid", "time")
"""The first decides what numbers mean, the second what instants since the boot do."""
ZOMBIE_OR_DEAD = "ZX"


class _Stat(NamedTuple):
    state: str
    threads: int
    started: int


def mark_of_this_process() -> ProcessMark | None:
    """``None`` where the system does not tell, or tells about other processes than ours."""
    try:
        if (PROC / "self").readlink() != Path(str(os.getpid())):
            return None  # /proc is that of another namespace
        boot = (PROC / "sys/kernel/random/boot_id").read_text().strip()
        namespaces = " ".join(map(_namespace, NAMESPACES))
    except OSError:
        return None
    stat = _stat(os.getpid())
    if stat is None:
        return None
    return ProcessMark(boot=boot, namespaces=namespaces, started=stat.started)


def has_ended(pid: int, mark: ProcessMark) -> bool:
    """Whether the process ``pid`` with ``mark`` is certainly no more. The mark must be of the
    same machine and namespaces as this process's own.

    A process that nobody has waited for yet (a zombie) has ended. One that is stopped has not.
    """
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # another user's: it is there, and perhaps hidden from the look below
    stat = _stat(pid)
    if stat is None:
        return False
    # A main thread may have ended before the others: those still work.
    over = stat.state in ZOMBIE_OR_DEAD and stat.threads <= 1
    return over or stat.started != mark.started


def _namespace(name: str) -> str:
    try:
        return str((PROC / "self/ns" / name).readlink())
    except FileNotFoundError:  # the kernel has no such namespaces
        if name == "pid":
            raise
        return ""


def _stat(pid: int) -> _Stat | None:
    """Some fields of proc_pid_stat(5)."""
    try:
        text = (PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The second field is the program's name, in parentheses, and may contain anything.
    fields = text.rpartition(")")[2].split()
    return _Stat(state=fields[0], threads=int(fields[17]), started=int(fields[19]))
