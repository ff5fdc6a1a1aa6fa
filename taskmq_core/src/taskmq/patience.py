"""How long calls to a store may take, where the caller knows better than the store's settings.

>>> with within(5.0):
...     transport.enqueue(sealed)

A transport asks `left` before each step that waits. One that does not keeps to its own timeouts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["left", "within"]

FOREVER = float("inf")
LEAST = 0.001

_until: ContextVar[float] = ContextVar("taskmq_until", default=FOREVER)


@contextmanager
def within(seconds: float) -> Iterator[None]:
    """What this thread does in here may take ``seconds`` in all; less, where it is within another
    such block that ends earlier."""
    token = _until.set(min(_until.get(), time.monotonic() + seconds))
    try:
        yield
    finally:
        _until.reset(token)


def left(most: float) -> float:
    """Seconds that the next step may wait: ``most``, or what is left of the block it is in. More
    than 0, so that what is late fails as anything does that takes too long."""
    until = _until.get()
    if until == FOREVER:
        return most
    return max(LEAST, min(most, until - time.monotonic()))
