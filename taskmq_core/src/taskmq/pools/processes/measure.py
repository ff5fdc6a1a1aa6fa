"""How many deliveries a child should have in advance."""

from __future__ import annotations

__all__ = ["Measure"]

AHEAD = 0.004
"""Seconds of work to have in a child's pipe, beside the job that runs."""
MOST = 64
WEIGHT = 0.05
LONG = 0.05
"""Longer than this is as good as this, and sooner forgotten."""


class Measure:
    """A moving average of how long jobs take. Jobs of more than `AHEAD` wait in the parent, where
    whichever child is free first gets them; short ones must not wait for the parent."""

    def __init__(self) -> None:
        self.mean: float | None = None

    def add(self, runtime: float) -> None:
        runtime = min(runtime, LONG)
        self.mean = runtime if self.mean is None else self.mean + (runtime - self.mean) * WEIGHT

    def ahead(self) -> int:
        """Beside the one that runs."""
        if self.mean is None:
            return 0
        return MOST if self.mean * MOST <= AHEAD else int(AHEAD / self.mean)
