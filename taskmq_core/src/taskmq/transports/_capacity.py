"""How full a queue may become, alike for the embedded stores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol

from taskmq.envelope import Sealed
from taskmq.errors import QueueFull
from taskmq.limits import Capacity

__all__ = ["DROPPED", "Room", "make_room"]

DROPPED = "queue_full"
"""Why a job is a dead letter that had to make room."""


class Room(Protocol):
    """What a store knows of how full a queue is."""

    def depths(self, queue: str) -> tuple[int, int]:
        """How many jobs are ready, due ones included, and how many are delayed or held."""

    def drop(self, counts: Mapping[str, int]) -> None:
        """Make dead letters of so many ready jobs of each queue: of the lowest priority first, then
        the oldest. All at once, so that what one of them makes ready or revokes is none of them."""


def make_room(room: Room, batch: Iterable[Sealed]) -> bool:
    """See to it that new jobs fit; whether others had to go. Raises `QueueFull`; then none did."""
    capacities: dict[str, Capacity] = {}
    new: Counter[str] = Counter()
    for sealed in batch:
        queue = sealed.envelope.queue
        if sealed.capacity is not None:
            capacities[queue] = sealed.capacity
        if not sealed.envelope.after:
            new[queue] += 1
    over: dict[str, int] = {}
    for queue, capacity in capacities.items():
        ready, others = room.depths(queue)
        excess = ready + others + new[queue] - capacity.limit
        droppable = ready if capacity.overflow == "drop_oldest" else 0
        if new[queue] and excess > droppable:
            raise _full(queue, ready + others, new[queue], capacity)
        if new[queue] and excess > 0:
            over[queue] = excess
    if over:
        room.drop(over)
    return bool(over)


def _full(queue: str, depth: int, count: int, capacity: Capacity) -> QueueFull:
    more = "one more" if count == 1 else f"{count:,} more"
    return QueueFull(
        f"queue {queue!r} holds {depth:,} jobs that wait, of {capacity.limit:,} that may: there is "
        f"no room for {more}; nothing was stored",
        queue=queue,
        depth=depth,
        capacity=capacity.limit,
    )
