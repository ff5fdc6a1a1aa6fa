"""Fair turns between the keys of one line (a queue and a priority), alike for the embedded stores.

Start-time fair queueing: a job's *rank* is the virtual time at which its turn begins, and jobs are
handed out by rank. A key's jobs follow each other at a distance of ``1 / weight``; the first of a
key that had none begins at the present, which is the rank handed out last. So a job waits for at
most one of each other key, however many these have, and nobody saves turns up.

A line has turns from its first job with a key on; jobs without one share the key ``""`` then. Those
that were there before have rank 0, and go first. Lines without keys are plain queues.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from taskmq.limits import Fair

__all__ = ["NOBODY", "UNIT", "FairBooks", "Line", "Turn", "Turnstile"]

UNIT = 1 << 20
"""A turn of weight 1. Whole numbers, so that stores agree and nothing is rounded away."""
NOBODY = Fair("")


class Line(NamedTuple):
    queue: str
    priority: int


class Turn(NamedTuple):
    """When a job's turn begins, and whose it is; ``None`` if nobody has to pay for it."""

    rank: int
    key: str | None
    length: int

    @property
    def end(self) -> int:
        return self.rank + self.length


class FairBooks(Protocol):
    """What a store knows of its lines."""

    def present(self, line: Line) -> int | None:
        """The highest rank that was handed out; ``None`` for a plain line."""

    def set_present(self, line: Line, rank: int) -> None: ...

    def served(self, line: Line, key: str) -> int:
        """The end of the last turn that a key had; 0 if that is forgotten."""

    def set_served(self, line: Line, key: str, end: int) -> None: ...

    def last(self, line: Line, key: str) -> Turn | None:
        """The turn of a key's last job."""


class Turnstile:
    """The lines during one operation on a store."""

    def __init__(self, books: FairBooks) -> None:
        self._books = books
        self._present: dict[Line, int | None] = {}
        self._next: dict[tuple[Line, str], int] = {}

    def enter(self, line: Line, fair: Fair | None) -> Turn | None:
        """The turn of a new job; ``None`` in a plain line."""
        if line not in self._present:
            self._present[line] = self._books.present(line)
        present = self._present[line]
        if present is None:
            if fair is None:
                return None
            present = self._present[line] = UNIT
            self._books.set_present(line, present)
        key, weight = (fair or NOBODY).key, (fair or NOBODY).weight
        turn = Turn(max(present, self._start(line, key)), key, max(1, round(UNIT / weight)))
        self._next[line, key] = turn.end
        return turn

    def _start(self, line: Line, key: str) -> int:
        if (line, key) not in self._next:
            last = self._books.last(line, key)
            self._next[line, key] = max(
                self._books.served(line, key), 0 if last is None else last.end
            )
        return self._next[line, key]

    def serve(self, line: Line, turns: Iterable[Turn]) -> None:
        """Jobs of a line are handed out."""
        present = self._books.present(line) or 0
        ends: dict[str, int] = {}
        for turn in turns:
            present = max(present, turn.rank)
            if turn.key is not None:
                ends[turn.key] = max(turn.end, ends.get(turn.key, 0))
        self._books.set_present(line, present)
        for key, end in ends.items():
            if end > self._books.served(line, key):
                self._books.set_served(line, key, end)
