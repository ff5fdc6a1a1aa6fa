"""The signal of a listener that waits for a thread of this process."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Callable

__all__ = ["TokenListener"]


class TokenListener:
    """The signal of a `taskmq.transport.Listener`, for one waiting thread.

    It is a token in a ``SimpleQueue``: the one way to wake a thread whose ``put`` may be called by
    a signal handler that interrupts any other call on the same object. (An ``Event`` or
    ``Condition`` would deadlock, or lose the wake-up, if the handler interrupted its ``wait``.)
    """

    def __init__(self) -> None:
        self._tokens: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._calls: deque[Callable[[], None]] = deque()  # who takes one out calls it

    def clear(self) -> None:
        while not self._tokens.empty():
            self._take(0.0)

    def wait(self, timeout: float | None) -> bool:
        if not self._take(timeout):
            return False
        self._tokens.put(None)  # it stays signalled until clear()
        return True

    def call_back(self, on_change: Callable[[], None]) -> bool:
        self._calls.append(on_change)
        if not self._tokens.empty():  # a wake() before the line above has called nobody
            self._call()
        return True

    def wake(self) -> None:
        # One token is enough. Whoever signals has changed the store before, so if a clear() takes
        # the token that is seen here, the look that follows the clear sees the change.
        if self._tokens.empty():
            self._tokens.put(None)
        self._call()

    def _call(self) -> None:
        while self._calls:
            try:
                on_change = self._calls.popleft()
            except IndexError:  # another thread has it
                return
            on_change()

    def _take(self, timeout: float | None) -> bool:
        try:
            self._tokens.get(timeout=None if timeout is None else max(0.0, timeout))
        except queue.Empty:
            return False
        return True
