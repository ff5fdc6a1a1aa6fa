"""Which messages of a channel are to be acknowledged, and in how few words that can be said."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

__all__ = ["Tags"]


class Tags:
    """Delivery tags of one channel: they come in order and are acknowledged in any."""

    def __init__(self) -> None:
        self._open: deque[int] = deque()
        self._over: set[int] = set()

    def received(self, tag: int) -> None:
        self._open.append(tag)

    def rejected(self, tag: int) -> None:
        self._over.add(tag)

    def acknowledge(self, tags: Iterable[int]) -> list[tuple[int, bool]]:
        """What to send: (tag, whether it stands for all before it as well)."""
        new = set(tags)
        self._over |= new
        last = None
        while self._open and self._open[0] in self._over:
            tag = self._open.popleft()
            self._over.discard(tag)
            if tag in new:
                new.discard(tag)
                last = tag
        answers = [] if last is None else [(last, True)]
        return answers + [(tag, False) for tag in sorted(new)]
