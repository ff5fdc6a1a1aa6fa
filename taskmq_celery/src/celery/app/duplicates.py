"""Which tasks have succeeded here lately: for messages that a broker brings again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ("SUCCESSFUL_MAX", "Latest", "successful_requests")

SUCCESSFUL_MAX = 1_000


class Latest:
    """The last so many that were added. Cheap: every task passes."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._items: dict[Any, None] = {}

    def add(self, item: Any) -> None:
        """Add one; the oldest goes where there is no room."""
        items = self._items
        items[item] = None
        if len(items) > self.limit:
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


successful_requests = Latest(SUCCESSFUL_MAX)
"""Ids of tasks that have returned in this worker."""
