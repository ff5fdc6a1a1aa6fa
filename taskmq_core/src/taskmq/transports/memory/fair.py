"""Whose turn it is in the lines of the memory transport."""

from __future__ import annotations

import heapq
from collections import defaultdict
from typing import TYPE_CHECKING

from taskmq.transports._fair import Line, Turn

from .job import Job

if TYPE_CHECKING:
    from .store import Store

__all__ = ["FairIndex", "MemoryFairBooks"]


class FairIndex:
    """What is remembered of lines and keys."""

    def __init__(self) -> None:
        self.present: dict[Line, int] = {}
        self.served: defaultdict[Line, dict[str, int]] = defaultdict(dict)
        self.turns: defaultdict[tuple[Line, str], list[tuple[int, str]]] = defaultdict(list)
        """Heaps, the last turn first; with entries of jobs that are gone."""
        self._forgotten: dict[Line, int] = {}  # up to which present

    def enter(self, job: Job) -> None:
        """Remember the turn of a job."""
        if job.turn is not None and job.turn.key is not None:
            line = Line(job.queue, job.priority)
            heapq.heappush(self.turns[line, job.turn.key], (-job.turn.rank, job.id))

    def forget_served(self) -> None:
        """Drop what makes no difference any more, where that may have become more."""
        for line, present in self.present.items():
            if self._forgotten.get(line) != present:
                served = self.served[line]
                self.served[line] = {key: end for key, end in served.items() if end > present}
                self._forgotten[line] = present


class MemoryFairBooks:
    """A `taskmq.transports._fair.FairBooks`."""

    def __init__(self, store: Store) -> None:
        self._jobs = store.jobs
        self._index = store.fair

    def present(self, line: Line) -> int | None:
        return self._index.present.get(line)

    def set_present(self, line: Line, rank: int) -> None:
        self._index.present[line] = rank

    def served(self, line: Line, key: str) -> int:
        return self._index.served[line].get(key, 0)

    def set_served(self, line: Line, key: str, end: int) -> None:
        self._index.served[line][key] = end

    def last(self, line: Line, key: str) -> Turn | None:
        heap = self._index.turns.get((line, key), [])
        while heap:
            job = self._jobs.get(heap[0][1])
            turn = None if job is None else job.turn
            if job is not None and (job.queue, job.priority) == line and turn and turn.key == key:
                return turn
            heapq.heappop(heap)
        self._index.turns.pop((line, key), None)
        return None
