"""Where a process hangs, and how much memory it takes."""

from __future__ import annotations

import inspect
import os
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import StringIO
from itertools import count
from typing import Any, TextIO

from celery.local import try_import
from celery.platforms import signals
from celery.utils.text import WhateverIO

__all__ = (
    "blockdetection",
    "cry",
    "humanbytes",
    "mem_rss",
    "memdump",
    "ps",
    "sample",
    "sample_mem",
)

Process: Any = getattr(try_import("psutil"), "Process", None)

UNITS = ((2**40.0, "TB"), (2**30.0, "GB"), (2**20.0, "MB"), (2**10.0, "KB"), (0.0, "b"))

_process: Any = None
_mem_sample: list[Any] = []


def _on_blocking(signum: int, frame: Any) -> None:
    raise RuntimeError(f"Blocking detection timed-out at: {inspect.getframeinfo(frame)}")


@contextmanager
def blockdetection(timeout: float) -> Iterator[None]:
    """Raise ``RuntimeError`` where the body is after ``timeout`` seconds. Uses SIGALRM."""
    if not timeout:
        yield
        return
    before = signals["ALRM"]
    before = None if before == _on_blocking else before
    signals["ALRM"] = _on_blocking
    try:
        signals.arm_alarm(timeout)
        yield
    finally:
        if before:
            signals["ALRM"] = before
        signals.reset_alarm()


def sample_mem() -> Any:
    """Take note of the memory in use now; see `memdump`."""
    current = mem_rss()
    _mem_sample.append(current)
    return current


def memdump(samples: int = 10, file: TextIO | None = None) -> None:
    """Print what `sample_mem` has noted, then forget it."""
    out = file or sys.stdout
    if ps() is None:
        out.write("- rss: (psutil not installed).\n")
        return
    for noted in sample(_mem_sample, samples):
        out.write(f"- rss (sample): {noted}\n")
    _mem_sample.clear()
    out.write(f"- rss (end): {mem_rss()}.\n")


def sample(x: Sequence[Any], n: int, k: int = 0) -> Iterator[Any]:
    """``n`` of the items, at equal distances."""
    step = max(len(x) // n, 1)
    for position in count(k, step):
        if k + n * step <= position or position >= len(x):
            return
        yield x[position]


def hfloat(f: float, p: int = 5) -> str:
    """A number for people."""
    whole = int(f)
    return str(whole) if whole == f else f"{f:.{p}g}"


def humanbytes(s: float) -> str:
    """A size in bytes for people: ``4MB``."""
    divisor, unit = next((size, name) for size, name in UNITS if s >= size)
    return f"{hfloat(s / divisor if divisor else s)}{unit}"


def mem_rss() -> str | None:
    """The memory of this process, for people; ``None`` without psutil."""
    process = ps()
    return None if process is None else humanbytes(process.memory_info().rss)


def ps() -> Any:
    """This process as psutil sees it; ``None`` without psutil."""
    global _process  # the process has one
    if _process is None and Process is not None:
        _process = Process(os.getpid())
    return _process


def cry(out: StringIO | None = None, sepchr: str = "=", seplen: int = 49) -> str:
    """Where every thread is now, as text."""
    text = WhateverIO() if out is None else out
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    line = sepchr * seplen
    for ident, frame in sys._current_frames().items():
        name = names.get(ident)
        if name is None:  # it has just begun or ended
            continue
        text.write(f"{name}\n{line}\n")
        traceback.print_stack(frame, file=text)
        text.write(f"{line}\nLOCAL VARIABLES\n{line}\n{frame.f_locals!r}\n\n")
    return text.getvalue()
