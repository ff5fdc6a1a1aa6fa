"""Threads beside an event loop, for what would hold it up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

__all__ = ["SideThreads"]


class SideThreads:
    """Daemon threads that are made when they are needed, and kept. One thread uses them."""

    def __init__(self) -> None:
        self.busy = 0
        """How many have something to do; the owner counts down."""
        self._count = 0
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def run(self, work: Callable[[], None]) -> None:
        self.busy += 1
        self._queue.put(work)
        if self.busy > self._count:
            self._count += 1
            name = f"taskmq-side-{self._count}"
            threading.Thread(target=self._live, name=name, daemon=True).start()

    def stop(self) -> None:
        """End when nothing is left."""
        for _ in range(self._count):
            self._queue.put(None)

    def _live(self) -> None:
        while (work := self._queue.get()) is not None:
            work()
