"""How long to leave a store alone that does not answer."""

from __future__ import annotations

import random
from collections.abc import Callable

__all__ = ["FIRST", "Backoff"]

FIRST, LONGEST = 0.05, 5.0


class Backoff:
    """Doubles from 0.05 s to 5 s; jitter (half to all of it) keeps workers out of step."""

    def __init__(self, draw: Callable[[], float] = random.random) -> None:
        self.failures = 0
        self._draw = draw

    def next(self) -> float:
        """Seconds to wait after one more failure."""
        delay = min(LONGEST, FIRST * 2.0 ** min(self.failures, 16))
        self.failures += 1
        return delay * (0.5 + self._draw() / 2)

    def reset(self) -> None:
        self.failures = 0
