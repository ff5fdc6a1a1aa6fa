"""The gates of a file: who runs behind them, who is held, who stands for a lane.

Nothing is counted apart: how many run or wait is read from the index of jobs that have a gate.
"""

from __future__ import annotations

import functools
import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from taskmq.envelope import Envelope
from taskmq.limits import Limit, concurrency_gate
from taskmq.transports._gates import Gates, Lane

from .statements import GATES as SQL

__all__ = ["Departure", "limits_of", "limits_text", "open_gates", "pass_gates", "place", "refill"]

BELOW_EVERY_QUEUE = ""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(tuple[Limit, ...]).decode


class Departure(NamedTuple):
    """A job runs no longer, or will not run. ``refunded``: it was let pass, but has not started."""

    limits: str
    queue: str
    priority: int
    refunded: bool = False


class SqliteBooks:
    """A `taskmq.transports._gates.Books`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute

    def running(self, gate: str) -> int:
        return int(self._execute(SQL["running"], (gate,)).fetchone()[0])

    def until(self, gate: str) -> float:
        row = self._execute(SQL["until"], (gate,)).fetchone()
        return 0.0 if row is None else float(row[0])

    def set_until(self, gate: str, until: float) -> None:
        self._execute(SQL["set_until"], (gate, until))

    def representatives(self, lane: Lane) -> int:
        return int(self._execute(SQL["representatives"], lane._asdict()).fetchone()[0])

    def first_held(self, lane: Lane) -> Sequence[Limit] | None:
        row = self._execute(SQL["first_held"], lane).fetchone()
        return None if row is None else limits_of(row[0])

    def lanes(self, gate: str) -> list[Lane]:
        found: list[Lane] = []
        row = self._execute(SQL["next_queue"], (gate, BELOW_EVERY_QUEUE)).fetchone()
        while row is not None:
            found.append(Lane(gate, *row))
            row = self._execute(SQL["next_priority"], (gate, *row)).fetchone()
            if row is None:
                row = self._execute(SQL["next_queue"], (gate, found[-1].queue)).fetchone()
        return found

    def hasten(self, gate: str, visible_at: float) -> None:
        self._execute(SQL["hasten"], {"gate": gate, "at": visible_at})

    def promote(self, lane: Lane, count: int, visible_at: float | None) -> None:
        values = {**lane._asdict(), "count": count, "at": visible_at}
        self._execute(SQL["promote" if visible_at is None else "delay"], values)


def open_gates(connection: sqlite3.Connection, now: float) -> Gates:
    """The gates of a store, for one operation."""
    return Gates(SqliteBooks(connection), now)


def refill(connection: sqlite3.Connection, departures: Iterable[Departure], now: float) -> None:
    """Let others take the place of those that have departed."""
    gates = open_gates(connection, now)
    for departure in departures:
        limits = limits_of(departure.limits)
        gates.leave(limits, departure.queue, departure.priority)
        if departure.refunded:
            gates.refund(limits)
    gates.refill()


def place(
    connection: sqlite3.Connection,
    batch: Iterable[tuple[int, Envelope]],
    now: float,
    *,
    in_turns: bool,
) -> None:
    """Give new jobs, by their place in the store, their limits, and hold those that must wait.

    ``in_turns``: a new one may come before others."""
    gates = open_gates(connection, now)
    limited: list[tuple[str | None, int]] = []
    moved: dict[str, list[tuple[str, int]]] = {"hold": [], "next": []}
    for seq, envelope in batch:
        limits, eta = envelope.limits, envelope.eta
        if not limits:
            continue
        limited.append((limits_text(limits), seq))
        if not envelope.after and (eta is None or eta <= now):
            holder = gates.place(limits, envelope.queue, envelope.priority)
            moved["hold" if holder else "next"].append((holder or limits[-1].gate, seq))
    connection.executemany(SQL["limit"], limited)
    for statement, rows in moved.items():
        connection.executemany(SQL[statement], rows)
    if in_turns:
        gates.refill()


def pass_gates(connection: sqlite3.Connection, passed: Iterable[tuple[int, str]]) -> None:
    """Let jobs with limits, by their place in the store, run behind their gates."""
    rows = [(concurrency_gate(limits_of(limits)), seq) for seq, limits in passed]
    connection.executemany(SQL["pass"], rows)


@functools.lru_cache(maxsize=1024)
def limits_of(text: str) -> tuple[Limit, ...]:
    """Limits, as they are stored."""
    return _decode(text)


def limits_text(limits: Sequence[Limit]) -> str | None:
    """Limits, as they are stored."""
    return _encode(limits).decode() if limits else None
