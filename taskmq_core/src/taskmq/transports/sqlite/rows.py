"""A job's row: where it stands, what happens to it, and how batches of rows are written."""

from __future__ import annotations

import functools
import re
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from taskmq.records import Failure, HistoryEntry
from taskmq.states import TERMINAL, Event, JobState, next_state

from .statements import SETTLE as SQL

__all__ = [
    "DEAD",
    "DELAYED",
    "FINISHED",
    "HELD",
    "READY",
    "RUNNING",
    "WAITING",
    "Row",
    "insert_many",
    "insert_pairs",
    "json_of",
    "json_of_numbers",
    "load",
    "save",
]

HELD, WAITING, DEAD, READY, DELAYED, RUNNING, FINISHED = range(-1, 6)
"""Column ``phase``; ``sql/0001_initial.sql`` says what each means."""

MAX_HISTORY = 20
MAX_DETAIL = 500
ROWS_AT_ONCE = 50
PAIRS_AT_ONCE = (250, 50, 10, 1)
"""Each is a statement that SQLite keeps, so there are few."""

VALUES = re.compile(r"VALUES (\([?, ]+\))")

_encode = msgspec.json.Encoder().encode
_decode_history = msgspec.json.Decoder(list[HistoryEntry]).decode


class Row(msgspec.Struct, kw_only=False):
    """What the end of a delivery may change; the columns of statement ``load``, in order."""

    seq: int
    id: str
    phase: int
    state: str
    settled_as: str | None
    attempt: int
    deliveries: int
    reclaims: int
    yields: int
    cancel_requested: int
    visible_at: float
    due_at: float | None
    task: str
    queue: str
    priority: int
    expires_at: float | None
    result_ttl: float
    keep_result: int
    on_receipt: int
    max_deliveries: int
    started_at: float | None
    finished_at: float | None
    worker: str | None
    parked_reason: str | None
    parked_at: float | None
    park_until: float | None
    dead_reason: str | None
    failure: str | None
    history: str | None
    limits: str | None
    gate: str | None

    def move(self, event: Event, now: float) -> None:
        """Let ``event`` happen. What else it changes (``visible_at``, counters) is set before."""
        state = next_state(JobState(self.state), event)
        if state is None:
            raise AssertionError(f"no transition from {self.state} by {event.value}")
        self.state = state.value
        self.gate = None
        if state in TERMINAL:
            dead = state is JobState.FAILED
            self.finished_at = now
            self.phase = DEAD if dead else FINISHED
            self.due_at = None if dead else now + self.result_ttl
            self.unpark()
        elif state is JobState.WAITING:
            self.phase, self.due_at = WAITING, None
        else:
            self.phase = READY if self.visible_at <= now else DELAYED
            self.due_at = None if self.phase == READY else self.visible_at

    def unpark(self) -> None:
        """Parked no longer."""
        self.parked_reason = self.parked_at = self.park_until = None

    def blame(self, failure: Failure) -> None:
        """Remember why the attempt failed."""
        self.failure = _encode(failure).decode()

    def note(self, event: Event, now: float, detail: str = "") -> None:
        """Enter into the history how the attempt ended."""
        entry = HistoryEntry(
            at=now,
            event=event.value,
            attempt=self.attempt,
            detail=detail[:MAX_DETAIL],
            worker=self.worker or "",
        )
        past = _decode_history(self.history) if self.history else []
        self.history = _encode([*past, entry][-MAX_HISTORY:]).decode()


def load(connection: sqlite3.Connection, seqs: Iterable[int]) -> dict[int, Row]:
    """Rows by place in the store."""
    rows = connection.execute(SQL["load"], (json_of_numbers(seqs),)).fetchall()
    return {values[0]: Row(*values) for values in rows}


def save(connection: sqlite3.Connection, rows: Iterable[Row]) -> None:
    """Write rows back."""
    connection.executemany(SQL["save"], [msgspec.structs.asdict(row) for row in rows])


def insert_many(connection: sqlite3.Connection, sql: str, rows: Sequence[tuple[Any, ...]]) -> int:
    """Insert rows, in order; how many were. ``sql`` has the values of one.

    Fifty rows in a statement take two thirds of the time that ``executemany`` needs for them.
    """
    inserted, whole = 0, len(rows) - len(rows) % ROWS_AT_ONCE
    if whole:
        several = _for_several(sql, ROWS_AT_ONCE)
        for start in range(0, whole, ROWS_AT_ONCE):
            chunk = rows[start : start + ROWS_AT_ONCE]
            values = [value for row in chunk for value in row]
            inserted += connection.execute(several, values).rowcount
    if whole < len(rows):
        inserted += connection.executemany(sql, rows[whole:]).rowcount
    return inserted


def insert_pairs(
    connection: sqlite3.Connection,
    sql: str,
    first: Sequence[int],
    second: Sequence[str | bytes],
    shared: tuple[Any, ...] = (),
) -> int:
    """Insert rows of which each has two values of its own, in order; how many were.

    ``sql`` binds what is ``shared``, and then ends with the two values of one row.
    """
    values: list[Any] = [None] * (2 * len(first))
    values[::2], values[1::2] = first, second
    inserted = start = 0
    for size in PAIRS_AT_ONCE:
        several = _for_several(sql, size)
        while len(values) - start >= 2 * size:
            chunk = values[start : start + 2 * size]
            inserted += connection.execute(several, (*shared, *chunk)).rowcount
            start += 2 * size
    return inserted


@functools.cache
def _for_several(sql: str, count: int) -> str:
    *_, last = VALUES.finditer(sql)
    before, behind = sql[: last.start(1)], sql[last.end(1) :]
    return before + ", ".join([last[1]] * count) + behind


def json_of(names: Iterable[str]) -> str:
    """Texts as the argument of ``json_each``."""
    return _encode(list(names)).decode()


def json_of_numbers(numbers: Iterable[int]) -> str:
    """Numbers as the argument of ``json_each``."""
    return f"[{','.join(map(str, numbers))}]"
