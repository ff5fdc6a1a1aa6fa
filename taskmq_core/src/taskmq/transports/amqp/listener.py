"""Waking up when a message comes, or else when the state store has something new.

A message is the first to say that there is a job. What never becomes a message (a limit that is
free again, a dependency that is met, a queue that is resumed, the end of a job) wakes through the
state store's own listener; for a moment after that we wait for a message that may belong to it, so
that the broker decides who gets the job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

from taskmq.transport import Listener

__all__ = ["AmqpListener"]

PATIENCE = 0.02
"""Seconds in which the message should follow that belongs to a change of the store."""


class AmqpListener:
    """A `taskmq.transport.Listener` for one waiting thread, around one of the state store."""

    def __init__(
        self, inner: Listener, queues: Sequence[str], on_close: Callable[[AmqpListener], None]
    ) -> None:
        self.queues = frozenset(queues)
        self._inner = inner
        self._on_close = on_close
        # Its put may be called by a signal handler that interrupts any other call on it.
        self._news: SimpleQueue[None] = SimpleQueue()

    def clear(self) -> None:
        self._inner.clear()
        while not self._news.empty():
            self._take(0.0)

    def wait(self, timeout: float | None) -> bool:
        ends = None if timeout is None else time.monotonic() + timeout
        if not self._inner.wait(timeout):
            return False
        left = PATIENCE if ends is None else min(PATIENCE, ends - time.monotonic())
        if self._take(max(0.0, left)):
            self._news.put(None)  # it stays signalled until clear()
        return True

    def call_back(self, on_change: Callable[[], None]) -> bool:
        return False  # the wait is for two things, one after the other

    def wake(self) -> None:
        """Also called when a message has come."""
        if self._news.empty():
            self._news.put(None)
        self._inner.wake()

    def close(self) -> None:
        self._on_close(self)
        self._inner.close()

    def _take(self, timeout: float) -> bool:
        try:
            self._news.get(timeout=timeout)
        except Empty:
            return False
        return True
