"""Notices that came before their job was due: kept in mind until it is."""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterable, Sequence

from .notice import Notice

__all__ = ["Early"]

MOST = 10_000
"""A queue. What is beyond that comes from the store when it is due."""


class Early:
    """Ids of jobs by the time at which they are due, for each queue."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_queue: dict[str, list[tuple[float, str]]] = {}

    def keep(self, notices: Iterable[Notice]) -> None:
        with self._lock:
            for notice in notices:
                kept = self._by_queue.setdefault(notice.queue, [])
                if notice.due is not None and len(kept) < MOST:
                    heapq.heappush(kept, (notice.due, notice.job))

    def take(self, queues: Sequence[str], now: float, limit: int) -> list[str]:
        """Those that are due, at most ``limit`` of a queue."""
        if not self._by_queue:
            return []
        with self._lock:
            taken = []
            for queue in queues:
                kept = self._by_queue.get(queue, [])
                for _ in range(limit):
                    if not kept or kept[0][0] > now:
                        break
                    taken.append(heapq.heappop(kept)[1])
            return taken
