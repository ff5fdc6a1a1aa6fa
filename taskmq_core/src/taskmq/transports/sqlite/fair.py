"""Whose turn it is in the lines of a file."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable

from taskmq.envelope import Envelope
from taskmq.transports._fair import Line, Turn, Turnstile

from .rows import json_of_numbers
from .statements import FAIR as SQL

__all__ = ["any_lines", "enter", "forfeit", "leave", "serve"]


class SqliteFairBooks:
    """A `taskmq.transports._fair.FairBooks`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute

    def present(self, line: Line) -> int | None:
        row = self._execute(SQL["present"], line).fetchone()
        return None if row is None else int(row[0])

    def set_present(self, line: Line, rank: int) -> None:
        self._execute(SQL["set_present"], (*line, rank))

    def served(self, line: Line, key: str) -> int:
        row = self._execute(SQL["served"], (*line, key)).fetchone()
        return 0 if row is None else int(row[0])

    def set_served(self, line: Line, key: str, end: int) -> None:
        self._execute(SQL["set_served"], (*line, key, end))

    def last(self, line: Line, key: str) -> Turn | None:
        row = self._execute(SQL["last"], (*line, key)).fetchone()
        return None if row is None else Turn(*row)


def any_lines(connection: sqlite3.Connection) -> bool:
    """Whether any line has turns."""
    return connection.execute(SQL["any_lines"]).fetchone() is not None


def enter(connection: sqlite3.Connection, batch: Iterable[tuple[int, Envelope]]) -> None:
    """Give new jobs, by their place in the store, their turns."""
    turnstile = Turnstile(SqliteFairBooks(connection))
    entered = []
    for seq, envelope in batch:
        line = Line(envelope.queue, envelope.priority)
        turn = turnstile.enter(line, envelope.fair)
        if turn is not None:
            entered.append((seq, *line, *turn))
    connection.executemany(SQL["enter"], entered)
    connection.executemany(SQL["set_rank"], [(row[3], row[0]) for row in entered])


def forfeit(connection: sqlite3.Connection, seqs: str) -> None:
    """Jobs (a JSON list of their places in the store) never ran, so their keys need not pay."""
    connection.execute(SQL["forfeit"], (seqs,))


def leave(connection: sqlite3.Connection, seq: int) -> None:
    """A job goes to another line, in which it has no turn."""
    connection.execute(SQL["leave"], (seq,))
    connection.execute(SQL["set_rank"], (0, seq))


def serve(connection: sqlite3.Connection, seqs: Iterable[int]) -> None:
    """Some jobs with turns, by their place in the store, are handed out."""
    taken: defaultdict[Line, list[Turn]] = defaultdict(list)
    rows = connection.execute(SQL["turns"], (json_of_numbers(seqs),)).fetchall()
    for queue, priority, rank, key, length in rows:
        taken[Line(queue, priority)].append(Turn(rank, key, length))
    turnstile = Turnstile(SqliteFairBooks(connection))
    for line, turns in taken.items():
        turnstile.serve(line, turns)
