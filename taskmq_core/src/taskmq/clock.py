"""Time as an interface.

Everything that needs the time takes a `Clock`: ``now()`` at the boundaries (what is stored,
compared between processes), ``monotonic()`` for durations. Tests pass
`taskmq.testing.FakeClock`.
"""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]


class Clock(Protocol):
    """Source of the current time, in float seconds."""

    def now(self) -> float:
        """Wall-clock time as seconds since the epoch, UTC."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes back."""


class SystemClock:
    """The machine's own clock."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
