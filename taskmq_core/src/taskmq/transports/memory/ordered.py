"""Job ids sorted by a number or a pair of numbers, cheap to change."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Generic, TypeVar

__all__ = ["Ordered"]

SLACK = 64

Place = TypeVar("Place", float, tuple[float, float])


class Ordered(Generic[Place]):
    """Job ids, each at one place; lowest first, equal places in the order of the ids.

    A heap beside a dict that is the truth: what was moved or discarded leaves a stale entry in
    the heap, which is skipped when it comes to the top. Every operation is O(log n), amortised.
    """

    __slots__ = ("_heap", "_places")

    def __init__(self) -> None:
        self._heap: list[tuple[Place, str]] = []
        self._places: dict[str, Place] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, job_id: str) -> bool:
        return job_id in self._places

    def __iter__(self) -> Iterator[str]:
        """In no particular order."""
        return iter(self._places)

    def put(self, job_id: str, place: Place) -> None:
        """Add a job, or move it."""
        self._places[job_id] = place
        heapq.heappush(self._heap, (place, job_id))
        if len(self._heap) > 2 * len(self._places) + SLACK:
            self._heap = [(place, job_id) for job_id, place in self._places.items()]
            heapq.heapify(self._heap)

    def discard(self, job_id: str) -> None:
        self._places.pop(job_id, None)

    def first(self) -> Place | None:
        """The lowest place; ``None`` if there is no job."""
        while self._heap:
            place, job_id = self._heap[0]
            if self._places.get(job_id) == place:
                return place
            heapq.heappop(self._heap)
        return None

    def peek(self) -> str:
        """The first job. Raises ``IndexError`` if there is none."""
        self.first()
        return self._heap[0][1]

    def lowest(self, count: int) -> list[str]:
        """The first jobs, at most ``count`` of them, in their order. They stay."""
        return heapq.nsmallest(count, self._places, key=self._places.__getitem__)

    def pop(self) -> str:
        """Take the first job out. Raises ``IndexError`` if there is none."""
        while True:
            place, job_id = heapq.heappop(self._heap)
            if self._places.get(job_id) == place:
                del self._places[job_id]
                return job_id

    def due(self, now: Place, limit: int | None = None) -> list[str]:
        """Take out those whose place is at most ``now``: all of them, or the first ``limit``."""
        taken: list[str] = []
        while (limit is None or len(taken) < limit) and self._is_due(now):
            taken.append(self.pop())
        return taken

    def _is_due(self, now: Place) -> bool:
        first = self.first()
        return first is not None and first <= now
