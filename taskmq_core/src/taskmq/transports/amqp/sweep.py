"""When the store is asked although the broker brings enough.

A job that is ready and has no message (whoever was to send it was killed in between, or the broker
lost it) comes directly as soon as an exchange has room left. While the broker has a backlog, none
has. So one exchange a second takes what the store would give without a broker: what is most urgent,
and the oldest of that.
"""

from __future__ import annotations

from collections.abc import Iterable

from taskmq.clock import Clock

__all__ = ["Sweep"]

EVERY = 1.0
"""Seconds for which the broker alone may fill exchanges, while the store has more."""


class Sweep:
    """Since when which exchanges have been filled without a look at what else there is."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[frozenset[str], float] = {}  # by the queues that they are about

    def postponed(self, queues: Iterable[str]) -> None:
        """An exchange was filled by the broker."""
        self._since.setdefault(frozenset(queues), self._clock.monotonic())

    def done(self, queues: Iterable[str]) -> None:
        """The store gave what it had, or had nothing else."""
        self._since.pop(frozenset(queues), None)

    def is_due(self, queues: Iterable[str]) -> bool:
        since = self._since.get(frozenset(queues))
        return since is not None and self._clock.monotonic() - since >= EVERY
