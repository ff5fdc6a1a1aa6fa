"""How long tests wait for what has to come, and how where nothing tells of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

__all__ = ["PATIENCE", "wait_for"]

PATIENCE = 60.0
"""Seconds. Nobody waits so long for a test that passes: what is waited for comes within moments on
a machine with nothing else to do, and within this on one that is slow and busy."""
POLL = 0.005


def wait_for(condition: Callable[[], T], what: str = "what was waited for") -> T:
    """Until it is true of another process or thread, which has no way to say so; gives its value.

    Raises `AssertionError` if it never is.
    """
    deadline = time.monotonic() + PATIENCE
    while not (value := condition()):
        assert time.monotonic() < deadline, f"{what} did not come"
        time.sleep(POLL)
    return value
