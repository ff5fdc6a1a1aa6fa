"""Limits that a child keeps itself: time, by a timer that interrupts, and memory."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["Alarm", "resident_bytes"]

PAGE = resource.getpagesize()


class Alarm:
    """Raises ``error`` in the main thread, which is where a child runs its tasks.

    The timer is the process's own real-time timer, with SIGALRM: a task that has a ``timeout``
    cannot use them for itself.
    """

    def __init__(self, error: Callable[[str], Exception]) -> None:
        self._error = error
        self._seconds: float | None = None

    def install(self) -> None:
        """Take the signal over."""
        signal.signal(signal.SIGALRM, self._ring)

    @contextmanager
    def __call__(self, seconds: float) -> Iterator[None]:
        """The block has so many seconds."""
        self._seconds = seconds
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            self._seconds = None  # first: what rings from here on came too late
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _ring(self, number: int, frame: FrameType | None) -> None:
        if self._seconds is not None:
            seconds, self._seconds = self._seconds, None
            raise self._error(f"timeout of {seconds:g} s is over")


def resident_bytes() -> int:
    """Resident memory of this process, or the most that it ever had where only that is known."""
    if sys.platform == "linux":
        descriptor = os.open("/proc/self/statm", os.O_RDONLY)
        try:
            return int(os.read(descriptor, 100).split()[1]) * PAGE
        finally:
            os.close(descriptor)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
