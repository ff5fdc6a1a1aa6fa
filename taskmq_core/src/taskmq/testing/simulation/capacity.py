"""How many jobs may wait in a queue, as the port says it."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from taskmq.envelope import Sealed

from .job import UNSTARTED, Job

__all__ = ["Overfull", "to_drop"]


class Overfull(Exception):
    """There is no room for a batch."""


def to_drop(jobs: Collection[Job], batch: Iterable[Sealed], now: float) -> list[Job]:
    """Which jobs have to make room for a batch. Raises `Overfull`."""
    batch = list(batch)
    dropped: list[Job] = []
    for queue in dict.fromkeys(sealed.envelope.queue for sealed in batch):
        of_queue = [sealed for sealed in batch if sealed.envelope.queue == queue]
        capacity = next((sealed.capacity for sealed in of_queue if sealed.capacity), None)
        new = sum(not sealed.envelope.after for sealed in of_queue)
        if capacity is None or not new:
            continue
        waiting = [
            each for each in jobs if each.envelope.queue == queue and each.state in UNSTARTED
        ]
        excess = len(waiting) + new - capacity.limit
        ready = [each for each in waiting if each.is_ready(now)]
        if excess > (len(ready) if capacity.overflow == "drop_oldest" else 0):
            raise Overfull
        ready.sort(key=lambda job: (job.envelope.priority, job.place))
        dropped += ready[: max(0, excess)]
    return dropped
