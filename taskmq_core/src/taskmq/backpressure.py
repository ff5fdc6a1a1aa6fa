"""Waiting for room: what a producer does when a queue is full that was declared to block."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from .config import QueueConfig
from .envelope import Sealed
from .errors import QueueFull
from .patience import within
from .transport import Enqueued, Transport

__all__ = ["enqueue_or_wait"]

LONGEST_WAIT = 0.5
"""Seconds until the next try if nothing is heard: room that a purge or an expiry made is silent."""


def enqueue_or_wait(
    transport: Transport,
    sealed: Sequence[Sealed],
    queues: Mapping[str, QueueConfig],
    monotonic: Callable[[], float] = time.monotonic,
    *,
    publish_timeout: float,
) -> list[Enqueued]:
    """Store jobs, as soon as the queues that are declared to block have room for all of them.

    The store has ``publish_timeout`` seconds to answer, each time that it is asked.
    Raises `QueueFull` for another queue, after ``block_timeout`` seconds, and at once for more jobs
    than would ever fit.
    """

    try:
        with within(publish_timeout):
            return transport.enqueue(sealed)
    except QueueFull as full:
        if not _may_wait(full, sealed, queues):
            raise
        deadline = monotonic() + queues[full.queue].block_timeout
    listener = transport.listen(queues=sorted({one.envelope.queue for one in sealed}))
    try:
        while True:
            listener.clear()
            try:
                with within(publish_timeout):
                    return transport.enqueue(sealed)
            except QueueFull as full:
                left = deadline - monotonic()
                if left <= 0 or not _may_wait(full, sealed, queues):
                    raise
            listener.wait(min(left, LONGEST_WAIT))
    finally:
        listener.close()


def _may_wait(full: QueueFull, sealed: Sequence[Sealed], queues: Mapping[str, QueueConfig]) -> bool:
    declared = queues.get(full.queue)
    count = Counter(one.envelope.queue for one in sealed)[full.queue]
    return declared is not None and declared.overflow == "block" and count <= full.capacity
