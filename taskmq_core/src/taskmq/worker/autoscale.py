"""As many slots as the load wants. Pure arithmetic."""

from __future__ import annotations

__all__ = ["INTERVAL", "Autoscale"]

INTERVAL = 1.0
"""Seconds between two decisions."""
PATIENCE = 10.0
"""Seconds for which slots must have been idle before any is taken away: a process is made faster
than a lull is known to be one."""


class Autoscale:
    """Grows by half as long as every slot is taken, shrinks to what was used after a while."""

    def __init__(self, least: int, most: int) -> None:
        self._least = least
        self._most = most
        self._calm_since: float | None = None
        self._peak = 0  # most slots in use since then

    def decide(self, slots: int, busy: int, now: float) -> int:
        """How many slots there should be. ``busy``: jobs that have a slot or wait for one;
        ``now`` in seconds of any clock that only goes forward."""
        if busy >= slots:
            self._calm_since = None
            return min(self._most, slots + max(1, slots // 2))
        if self._calm_since is None:
            self._calm_since, self._peak = now, 0
        self._peak = max(self._peak, busy)
        if now - self._calm_since < PATIENCE:
            return slots
        peak, self._calm_since = self._peak, None
        return min(slots, max(self._least, peak))
