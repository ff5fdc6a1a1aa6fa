"""When the store is asked although the broker brings enough.

A job that is ready and has no message (whoever was to send it was killed in between, or the broker
lost it) comes directly as soon as an exchange has room left. While the broker has a backlog, none
has. So one exchange in ten, and no more than one a second, takes what the store would give without
a broker: what is most urgent, and the oldest of that.
"""

from __future__ import annotations

from collections.abc import Iterable

from taskmq.clock import Clock

__all__ = ["Sweep"]

EVERY = 1.0
"""Seconds for which the broker alone may fill exchanges, while the store has more."""
SHARE = 10
"""How many at least it may fill: with long jobs there are few in a second."""


class Sweep:
    """Since when, and how many, exchanges have been filled without a look at what else there is."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._filled: dict[frozenset[str], tuple[float, int]] = {}  # by their queues

    def postponed(self, queues: Iterable[str]) -> None:
        """An exchange was filled by the broker."""
        key = frozenset(queues)
        since, count = self._filled.get(key) or (self._clock.monotonic(), 0)
        self._filled[key] = since, count + 1

    def done(self, queues: Iterable[str]) -> None:
        """The store gave what it had, or had nothing else."""
        self._filled.pop(frozenset(queues), None)

    def is_due(self, queues: Iterable[str]) -> bool:
        since, count = self._filled.get(frozenset(queues)) or (0.0, 0)
        return count >= SHARE and self._clock.monotonic() - since >= EVERY
