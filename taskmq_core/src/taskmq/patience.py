"""How long calls to a store may take, where the caller knows better than the store's settings.

>>> with within(5.0):
...     transport.enqueue(sealed)

A transport asks `left` before each step that waits. One that does not keeps to its own timeouts.
"""

from __future__ import annotations

import time
from contextvars import ContextVar, Token

__all__ = ["left", "within"]

FOREVER = float("inf")
LEAST = 0.001

_until: ContextVar[float] = ContextVar("taskmq_until", default=FOREVER)


class within:  # noqa: N801  # read as a statement
    """What this thread does in here may take ``seconds`` in all; less, where it is within another
    such block that ends earlier."""

    # A class: each call to a store is in such a block, and a generator costs twice as much.
    __slots__ = ("_seconds", "_token")

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def __enter__(self) -> None:
        until = min(_until.get(), time.monotonic() + self._seconds)
        self._token: Token[float] = _until.set(until)

    def __exit__(self, *error: object) -> None:
        _until.reset(self._token)


def left(most: float) -> float:
    """Seconds that the next step may wait: ``most``, or what is left of the block it is in. More
    than 0, so that what is late fails as anything does that takes too long."""
    until = _until.get()
    if until == FOREVER:
        return most
    return max(LEAST, min(most, until - time.monotonic()))
