"""What coroutines ask of a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["in_thread"]

P = ParamSpec("P")
R = TypeVar("R")


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call it in a thread of asyncio's, and wait for what it returns or raises."""
    import asyncio  # four MiB, which producers and workers without coroutines need not have

    return await asyncio.to_thread(function, *args, **kwargs)
