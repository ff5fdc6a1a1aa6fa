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

from .statements import ENQUEUE
from .statements import SETTLE as SQL

__all__ = [
    "DEAD",
    "DELAYED",
    "FINISHED",
    "HELD",
    "MOST_IN_ROW",
    "READY",
    "RUNNING",
    "SHORTEST_RUN",
    "WAITING",
    "Row",
    "in_row",
    "insert_alike",
    "insert_many",
    "json_of",
    "json_of_numbers",
    "load",
    "replace_envelope",
    "runs_of",
    "save",
    "update_many",
]

HELD, WAITING, DEAD, READY, DELAYED, RUNNING, FINISHED = range(-1, 6)
"""Column ``phase``; ``sql/0001_initial.sql`` says what each means."""

MOST_IN_ROW = 1_000
"""Bytes of an envelope that is kept in its job's row. That saves a page of the commit, but each
change of the row writes it anew."""
MAX_HISTORY = 20
MAX_DETAIL = 500
ROWS_AT_ONCE = 50
ALIKE_AT_ONCE = (250, 50, 10, 1)
"""Each is a statement that SQLite keeps, so there are few."""

AMONG = "WHERE seq IN (SELECT value FROM json_each(?))"
SHORTEST_RUN = 8
"""A statement for each range is worth it from so many jobs in each, on average."""
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


def in_row(envelope: bytes) -> bytes | None:
    """What of an envelope is kept in its job's row: all, or ``None`` if it is stored apart."""
    return envelope if len(envelope) <= MOST_IN_ROW else None


def replace_envelope(connection: sqlite3.Connection, seq: int, envelope: bytes) -> None:
    """Another envelope for a job, by its place in the store."""
    connection.execute(SQL["replace_envelope"], (in_row(envelope), seq))
    connection.execute(SQL["drop_envelopes"], (json_of_numbers([seq]),))
    if in_row(envelope) is None:
        connection.execute(ENQUEUE["insert_envelopes"], (seq, envelope))


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


def insert_alike(
    connection: sqlite3.Connection,
    sql: str,
    own: Sequence[Sequence[Any]],
    shared: tuple[Any, ...],
) -> int:
    """Insert rows that share most of their values, in order; how many were.

    ``own`` are columns of values of which each row has its own. ``sql`` binds what is ``shared``,
    and then those of one row.
    """
    width = len(own)
    values: list[Any] = [None] * (width * len(own[0]))
    for place, column in enumerate(own):
        values[place::width] = column
    inserted = start = 0
    for size in ALIKE_AT_ONCE:
        several = _for_several(sql, size)
        while len(values) - start >= width * size:
            chunk = values[start : start + width * size]
            inserted += connection.execute(several, (*shared, *chunk)).rowcount
            start += width * size
    return inserted


def update_many(
    connection: sqlite3.Connection, sql: str, values: tuple[Any, ...], seqs: Sequence[int]
) -> None:
    """Change jobs, by their places in the store. ``sql`` ends with the condition `AMONG`, whose
    parameter comes behind ``values``.

    A worker's jobs mostly follow each other. By ranges they take a tenth less time than one by one.
    Another tenth is saved by OR ROLLBACK in a statement, since SQLite need not be able to take it
    back alone; the transaction ends with an error anyway.
    """
    runs = runs_of(seqs)
    if len(runs) * SHORTEST_RUN <= len(seqs):
        by_range = sql.replace(AMONG, "WHERE seq BETWEEN ? AND ?")
        for run in runs:
            connection.execute(by_range, (*values, *run))
    else:
        connection.execute(sql, (*values, json_of_numbers(seqs)))


def runs_of(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """The first and the last of those that follow each other without a gap; no number comes twice.

    >>> runs_of([4, 1, 2, 3, 7])
    [(1, 4), (7, 7)]
    """
    if not numbers:
        return []
    low, high = min(numbers), max(numbers)
    if high - low + 1 == len(numbers):
        return [(low, high)]
    ordered = sorted(numbers)
    ends = [place for place in range(1, len(ordered)) if ordered[place] - ordered[place - 1] > 1]
    return [
        (ordered[start], ordered[end - 1])
        for start, end in zip([0, *ends], [*ends, len(ordered)], strict=True)
    ]


@functools.cache
def _for_several(sql: str, count: int) -> str:
    first = VALUES.search(sql)
    assert first is not None  # noqa: S101  # for mypy; the statements are ours
    before, behind = sql[: first.start(1)], sql[first.end(1) :]
    return before + ", ".join([first[1]] * count) + behind


def json_of(names: Iterable[str]) -> str:
    """Texts as the argument of ``json_each``."""
    return _encode(list(names)).decode()


def json_of_numbers(numbers: Iterable[int]) -> str:
    """Numbers as the argument of ``json_each``."""
    return f"[{','.join(map(str, numbers))}]"
