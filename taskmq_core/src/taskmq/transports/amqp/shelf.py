"""What has arrived from the broker and waits for the next exchange, by queue."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from .notice import Notice

__all__ = ["Arrival", "Shelf"]


class Arrival(NamedTuple):
    """A message. ``link`` counts the connections: a tag is good for its own only."""

    notice: Notice
    tag: Any
    link: int


class Shelf:
    """Filled by the consumer's thread, emptied by exchanges. Each arrival is with one of them."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        """Notified of arrivals; the consumer's too, for what it tells those who wait for them."""
        self._arrivals: dict[str, deque[Arrival]] = {}
        self._missing = 0  # until enough have come for the one who waits

    def put(self, arrival: Arrival) -> None:
        with self.changed:
            self._arrivals.setdefault(arrival.notice.queue, deque()).append(arrival)
            self._missing -= 1
            if self._missing == 0:  # not for each one: that would switch threads every time
                self.changed.notify_all()

    def put_back(self, arrivals: Sequence[Arrival]) -> None:
        """They come first next time, in this order."""
        with self.changed:
            for arrival in reversed(arrivals):
                self._arrivals.setdefault(arrival.notice.queue, deque()).appendleft(arrival)

    def take(self, queues: Iterable[str], limit: int) -> list[Arrival]:
        """At most ``limit`` of some queues, the most urgent first."""
        with self.changed:
            taken: list[Arrival] = []
            for queue in queues:
                waiting = self._arrivals.get(queue)
                while waiting and len(waiting) > 0:
                    taken.append(waiting.popleft())
            taken.sort(key=lambda arrival: -arrival.notice.priority)  # stable
            if len(taken) > limit:
                for arrival in reversed(taken[limit:]):
                    self._arrivals[arrival.notice.queue].appendleft(arrival)
            return taken[:limit]

    def clear(self, queue: str | None = None) -> list[Arrival]:
        """Take everything, of one queue or of all."""
        with self.changed:
            names = list(self._arrivals) if queue is None else [queue]
            return [each for name in names for each in self._arrivals.pop(name, ())]

    def count(self, queues: Iterable[str]) -> int:
        with self.changed:
            return sum(len(self._arrivals.get(queue, ())) for queue in queues)

    def wait(
        self, queues: Sequence[str], count: int, *, first: float, next_: float, longest: float
    ) -> bool:
        """Wait for ``count`` arrivals, but no longer than ``first`` seconds for the first one,
        ``next_`` (or twice that) without a further one, and ``longest`` in all; whether there are
        any."""
        ends = time.monotonic() + longest
        with self.changed:
            before = self.count(queues)
            while before < count:
                left = min(next_ if before else first, ends - time.monotonic())
                if left <= 0:
                    break
                self._missing = count - before if before else 1
                self.changed.wait(left)
                now = self.count(queues)
                if now <= before:
                    break  # silence, or the consumer has no connection any more
                before = now
            return before > 0
