"""Weighted turns between queues whose heads are equally urgent. Pure, apart from its memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heapreplace, nsmallest

__all__ = ["Turns"]


class Turns:
    """Shares a limit among queues in proportion to their weights.

    Each queue carries a virtual time that advances by ``1 / weight`` with every job taken; the
    queue furthest behind is next (ties by name). One that was empty does not save turns up: it
    joins at the present.
    """

    def __init__(self) -> None:
        self._served: dict[str, float] = {}
        self._present = 0.0  # virtual time of the last turn: no queue in use is behind it

    def first(self, queues: Sequence[str], limit: int) -> Sequence[str]:
        """Those of some queues that can have a turn among the next ``limit``, in the same order:
        nobody need look how many jobs the others have. Never one alone, which would not be a turn.
        """
        chosen = set(nsmallest(max(limit, 2), queues, key=lambda queue: (self._at(queue), queue)))
        return [queue for queue in queues if queue in chosen]

    def _at(self, queue: str) -> float:
        return max(self._served.get(queue, self._present), self._present)

    def share(
        self, available: Mapping[str, int], weights: Mapping[str, int], limit: int
    ) -> dict[str, int]:
        """How many to take from each queue: at most ``available`` each, ``limit`` in all."""
        left = {queue: count for queue, count in available.items() if count > 0}
        if len(left) == 1:
            (queue,) = left
            return {queue: min(limit, left[queue])}
        taken = dict.fromkeys(left, 0)
        turns = [(self._at(queue), queue) for queue in left]
        heapify(turns)
        while limit > 0 and turns:
            self._present, queue = turns[0]
            self._served[queue] = self._present + 1 / weights.get(queue, 1)
            taken[queue] += 1
            left[queue] -= 1
            limit -= 1
            if left[queue]:
                heapreplace(turns, (self._served[queue], queue))
            else:
                heappop(turns)
        return {queue: count for queue, count in taken.items() if count}
