"""How full a queue is."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

from taskmq.transports._capacity import DROPPED

from . import fair
from .endings import departures_of, give_up, write_back
from .gates import refill
from .rows import json_of_numbers, load
from .statements import ENQUEUE as SQL

__all__ = ["SqliteRoom"]

BELOW_EVERY_PRIORITY = -1_000_000


class SqliteRoom:
    """A `taskmq.transports._capacity.Room`."""

    def __init__(self, connection: sqlite3.Connection, now: float) -> None:
        self._connection = connection
        self._now = now

    def depths(self, queue: str) -> tuple[int, int]:
        self._connection.execute(SQL["promote_all"], (queue, self._now))
        row = self._connection.execute(SQL["depths"], {"queue": queue}).fetchone()
        return int(row[0]), int(row[1])

    def drop(self, counts: Mapping[str, int]) -> None:
        seqs = [seq for queue, count in counts.items() for seq in self._lowest(queue, count)]
        fair.forfeit(self._connection, json_of_numbers(seqs))
        rows = load(self._connection, seqs).values()
        departures = departures_of(rows)
        for row in rows:
            give_up(row, DROPPED, self._now)
        write_back(self._connection, rows, self._now)
        if departures:
            refill(self._connection, departures, self._now)

    def _lowest(self, queue: str, count: int) -> list[int]:
        seqs: list[int] = []
        lowest = BELOW_EVERY_PRIORITY
        while len(seqs) < count:
            values = {"queue": queue, "above": lowest, "count": count - len(seqs)}
            found = self._connection.execute(SQL["lowest"], values).fetchall()
            seqs += [seq for seq, _ in found]
            lowest = found[0][1]
        return seqs
