"""How many deliveries of each queue a worker may hold, where that is declared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from taskmq.config import QueueConfig
from taskmq.transport import Delivery

__all__ = ["Quotas"]


class Quotas:
    """Counts what a worker holds of the queues that have a ``max_running``."""

    def __init__(self, queues: Iterable[str], declared: Mapping[str, QueueConfig]) -> None:
        self._declared = declared
        self._counts = any(each.max_running is not None for each in declared.values())
        self._held: Counter[str] = Counter()
        self.watch(queues)

    def watch(self, queues: Iterable[str]) -> None:
        """The queues that the worker takes jobs from now."""
        declared = self._declared
        most = {name: declared[name].max_running for name in queues if name in declared}
        self._most = {name: count for name, count in most.items() if count is not None}

    def hold(self, deliveries: Iterable[Delivery]) -> None:
        """The worker has them now."""
        if self._counts:
            self._held.update(delivery.queue for delivery in deliveries)

    def let_go(self, deliveries: Iterable[Delivery]) -> None:
        """The worker has them no longer."""
        if self._counts:
            self._held.subtract(delivery.queue for delivery in deliveries)

    def left(self) -> dict[str, int]:
        """How many more it may have, by queue; for a `taskmq.transport.Reservation`."""
        return {name: max(0, most - self._held[name]) for name, most in self._most.items()}
