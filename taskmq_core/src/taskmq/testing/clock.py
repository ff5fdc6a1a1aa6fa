"""A clock that stands still until a test moves it."""

from __future__ import annotations

import threading

__all__ = ["FakeClock"]

START = 1_700_000_000.0


class FakeClock:
    """A `taskmq.clock.Clock` under control. Safe to use from several threads.

    ``advance`` moves both hands, as time does. ``set`` moves the wall clock alone, as an
    administrator or NTP does, and may go back.

    >>> clock = FakeClock()
    >>> before = clock.now()
    >>> clock.advance(1.5)
    >>> clock.now() - before
    1.5
    """

    def __init__(self, at: float = START) -> None:
        self._lock = threading.Lock()
        self._now = at
        self._monotonic = 0.0

    def now(self) -> float:
        """Wall-clock time, epoch seconds."""
        with self._lock:
            return self._now

    def monotonic(self) -> float:
        """Seconds since the clock was made."""
        with self._lock:
            return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass. Raises ``ValueError`` for a negative number: monotonic time never goes
        back."""
        if seconds < 0:
            raise ValueError(f"time does not go back ({seconds:g} s); set() moves the wall clock")
        with self._lock:
            self._now += seconds
            self._monotonic += seconds

    def set(self, at: float) -> None:
        """Set the wall clock to ``at`` epoch seconds, forwards or backwards."""
        with self._lock:
            self._now = at
