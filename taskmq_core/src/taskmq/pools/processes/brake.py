"""Not making children as fast as they die."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["Brake"]

FIRST, LONGEST = 0.1, 5.0


class Brake:
    """The first child that dies is replaced at once, and so is each that has run a job; the others
    wait, from 0.1 s to 5 s, until one lives."""

    HOPELESS = 3
    """So many in a row, and none before that ever lived: there is no point in going on."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.failures = 0
        self.until = 0.0
        self._monotonic = monotonic

    def failed(self, *, lived: bool) -> float:
        """A child died by itself; the seconds until the next may be made."""
        self.failures = 1 if lived else self.failures + 1
        if self.failures < 2:
            return 0.0
        wait = min(LONGEST, FIRST * 2.0 ** min(self.failures - 2, 16))
        self.until = self._monotonic() + wait
        return wait

    def refused(self) -> float:
        """A child could not even be made; the seconds until the next try."""
        self.failures = max(1, self.failures)
        return self.failed(lived=False)

    def release(self) -> None:
        """A child has run a job, or could be made."""
        self.failures, self.until = 0, 0.0
