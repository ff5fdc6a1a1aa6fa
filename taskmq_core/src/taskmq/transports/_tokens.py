"""The signal of a listener that waits for a thread of this process."""

from __future__ import annotations

import queue

__all__ = ["TokenListener"]


class TokenListener:
    """The signal of a `taskmq.transport.Listener`, for one waiting thread.

    It is a token in a ``SimpleQueue``: the one way to wake a thread whose ``put`` may be called by
    a signal handler that interrupts any other call on the same object. (An ``Event`` or
    ``Condition`` would deadlock, or lose the wake-up, if the handler interrupted its ``wait``.)
    """

    def __init__(self) -> None:
        self._tokens: queue.SimpleQueue[None] = queue.SimpleQueue()

    def clear(self) -> None:
        while not self._tokens.empty():
            self._take(0.0)

    def wait(self, timeout: float | None) -> bool:
        if not self._take(timeout):
            return False
        self._tokens.put(None)  # it stays signalled until clear()
        return True

    def wake(self) -> None:
        # One token is enough. Whoever signals has changed the store before, so if a clear() takes
        # the token that is seen here, the look that follows the clear sees the change.
        if self._tokens.empty():
            self._tokens.put(None)

    def _take(self, timeout: float | None) -> bool:
        try:
            self._tokens.get(timeout=None if timeout is None else max(0.0, timeout))
        except queue.Empty:
            return False
        return True
