"""In which order tests run, where several processes share them.

Each process begins with its own part of the list and, when that is done, takes from the ends of the
others'. Tests that wait for most of their time (for a process to die, a lease to end) or compute
for seconds come first in each part, the same number of them in each: otherwise one process would
have all of them, one after the other, while the rest has nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import TypeVar

T = TypeVar("T")

__all__ = ["dealt"]


def dealt(items: Sequence[T], parts: int, together: Callable[[T], object | None]) -> list[T]:
    """The items in an order for so many processes.

    ``together`` gives, of a long one, what it shares with those that have to stay beside it (the
    servers of a module); ``None`` of one that is short.
    """
    long = [list(group) for key, group in groupby(items, together) if key is not None]
    short = [item for item in items if together(item) is None]
    hands: list[list[T]] = [[] for _ in range(parts)]
    for group in sorted(long, key=len, reverse=True):
        min(hands, key=len).extend(group)
    sizes = list(_sizes(len(items), parts))
    at, order = 0, []
    for hand, size in zip(hands, sizes, strict=True):
        rest = max(0, size - len(hand))
        order += [*hand, *short[at : at + rest]]
        at += rest
    return [*order, *short[at:]]


def _sizes(count: int, parts: int) -> Iterable[int]:
    """Of equal parts, as far as that goes."""
    for part in range(parts):
        yield count * (part + 1) // parts - count * part // parts
