"""Weighted turns between queues whose heads are equally urgent. Pure, apart from its memory."""

from __future__ import annotations

from collections.abc import Mapping

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

    def share(
        self, available: Mapping[str, int], weights: Mapping[str, int], limit: int
    ) -> dict[str, int]:
        """How many to take from each queue: at most ``available`` each, ``limit`` in all."""
        left = {queue: count for queue, count in available.items() if count > 0}
        if len(left) == 1:
            (queue,) = left
            return {queue: min(limit, left[queue])}
        present = self._present
        served = {queue: max(self._served.get(queue, present), present) for queue in left}
        taken = dict.fromkeys(left, 0)
        while limit > 0 and left:
            queue = min(left, key=lambda name: (served[name], name))
            self._present = served[queue]
            served[queue] += 1 / weights.get(queue, 1)
            taken[queue] += 1
            left[queue] -= 1
            limit -= 1
            if not left[queue]:
                del left[queue]
        self._served.update(served)
        return {queue: count for queue, count in taken.items() if count}
