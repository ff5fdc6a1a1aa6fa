"""Which tasks have succeeded here lately: for messages that a broker brings again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ("Latest", "successful_requests")


class Latest:
    """The last so many that were added. Cheap: every task passes."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: dict[Any, None] = {}

    def add(self, item: Any) -> None:
        """Add one; the oldest goes where there is no room."""
        items = self._items
        items[item] = None
        if len(items) > self._size:
            del items[next(iter(items))]

    def discard(self, item: Any) -> None:
        """Take one out, if it is there."""
        self._items.pop(item, None)

    def clear(self) -> None:
        """Take all out."""
        self._items.clear()

    def __contains__(self, item: object) -> bool:
        return item in self._items

    def __iter__(self) -> Iterator[Any]:
        return iter(list(self._items))

    def __len__(self) -> int:
        return len(self._items)


successful_requests = Latest(1_000)
"""Ids of tasks that have returned in this worker."""
