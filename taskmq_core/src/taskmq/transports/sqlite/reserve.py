"""Handing out deliveries, and the housekeeping that comes before."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import msgspec

from taskmq.records import Dropped
from taskmq.states import TERMINAL, Event
from taskmq.transport import Exchange, Reservation
from taskmq.turns import Turns

from . import fair
from .claim import Claim, highest, without_used_up
from .control import respect_pauses
from .endings import departures_of, lose, lose_all, write_back
from .gates import Departure, refill
from .rows import WAITING, Row, json_of, json_of_numbers, load
from .statements import RESERVE as SQL
from .statements import SETTLE

__all__ = [
    "Survey",
    "drop_expired",
    "dropped_of",
    "look",
    "reclaim",
    "reclaim_from",
    "reserve",
    "survey",
]

TIDY_LIMIT = 5_000
"""How many jobs of each kind and queue one exchange looks after: what a transaction, for which
others have to wait, can do in some 50 ms. What is left makes `Exchange.next_due_at` the present."""


class Survey(msgspec.Struct):
    """What there is to do for some queues. Each instant is the earliest of its kind."""

    tops: dict[str, int | None]
    """The highest ready priority of each queue."""
    visible_at: float | None
    lease_until: float | None
    expires_at: float | None

    def is_idle(self, now: float) -> bool:
        """Whether no job is ready, and nothing has become due."""
        return self.top is None and not self.is_untidy(now)

    def is_untidy(self, now: float) -> bool:
        """Whether something has become due."""
        dues = (self.visible_at, self.lease_until, self.expires_at)
        return any(due is not None and due <= now for due in dues)

    @property
    def top(self) -> int | None:
        return highest(self.tops)

    @property
    def next_due_at(self) -> float | None:
        return earliest(self.visible_at, self.lease_until)


def survey(connection: sqlite3.Connection, queues: Iterable[str]) -> Survey:
    """Look what there is to do, without doing it."""
    rows = connection.execute(SQL["survey"], (json_of(queues),)).fetchall()
    tops = {queue: top for queue, top, _, _, _ in rows}
    _, _, visible, leases, expiries = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    return Survey(tops, earliest(*visible), earliest(*leases), earliest(*expiries))


def look(connection: sqlite3.Connection, wanted: Reservation) -> tuple[Survey, int | None]:
    """The same for a reservation, with the highest ready priority that it may have."""
    wanted = respect_pauses(connection, wanted)
    found = survey(connection, wanted.queues)
    return found, highest(without_used_up(found.tops, wanted.quotas))


def reserve(
    connection: sqlite3.Connection, turns: Turns, wanted: Reservation, now: float
) -> Exchange:
    """Bring the queues up to date and lease the most urgent jobs, see
    `taskmq.transport.Reserver.exchange`."""
    dropped: list[Dropped] = []
    wanted = respect_pauses(connection, wanted)
    found = survey(connection, wanted.queues)
    if found.is_untidy(now):
        dropped = _tidy(connection, wanted.queues, now)
        found = survey(connection, wanted.queues)
    claim = Claim(connection, turns, wanted, now)
    tops = claim.run(found.tops)
    if claim.has_moved_others:
        found = survey(connection, wanted.queues)
    next_due_at = found.next_due_at
    if claim.deliveries:
        next_due_at = earliest(next_due_at, claim.deliveries[0].lease_until)
    return Exchange(
        deliveries=claim.deliveries,
        dropped=dropped,
        next_due_at=now if found.is_untidy(now) or claim.is_unfinished else next_due_at,
        waiting_priority=highest(tops),
    )


# -- housekeeping --------------------------------------------------------------------------------


def _tidy(connection: sqlite3.Connection, queues: Iterable[str], now: float) -> list[Dropped]:
    """Take back, drop and promote what is due; the jobs that left their queue so."""
    dropped: list[Dropped] = []
    for queue in queues:
        dropped += dropped_of(reclaim(connection, queue, now, TIDY_LIMIT))
    dropped += drop_expired(connection, queues, now, TIDY_LIMIT)
    for queue in queues:
        connection.execute(SQL["promote"], (queue, now, TIDY_LIMIT))
    return dropped


def reclaim(connection: sqlite3.Connection, queue: str, now: float, limit: int) -> list[Row]:
    """Take back jobs whose lease has ended."""
    seqs = connection.execute(SQL["overdue"], (queue, now, limit)).fetchall()
    return _take_back(connection, seqs, now, "its lease ended")


def reclaim_from(connection: sqlite3.Connection, worker_id: str, now: float) -> list[Row]:
    """Take back whatever a worker holds."""
    seqs = connection.execute(SQL["held_by"], (worker_id,)).fetchall()
    return _take_back(connection, seqs, now, "its worker is gone")


def _take_back(
    connection: sqlite3.Connection, seqs: list[tuple[int]], now: float, why: str
) -> list[Row]:
    if not seqs:
        return []
    rows = list(load(connection, [seq for (seq,) in seqs]).values())
    for row in rows:
        row.unpark()
        visible_at = now if row.due_at is None else min(now, row.due_at)
        lose(row, Event.RECLAIM, now, visible_at=visible_at, why=why)
    write_back(connection, rows, now)
    departures = departures_of(rows)
    if departures:
        refill(connection, departures, now)
    return rows


def dropped_of(rows: Iterable[Row]) -> list[Dropped]:
    """Those of these jobs that have ended, as dead letters or because they were to stop."""
    ended = (row for row in rows if row.state in TERMINAL)
    return [Dropped(row.id, row.task, row.queue, row.dead_reason or "revoked") for row in ended]


def drop_expired(
    connection: sqlite3.Connection, queues: Iterable[str], now: float, limit: int
) -> list[Dropped]:
    """End jobs that nobody started in time, at most ``limit``."""
    dropped: list[Dropped] = []
    departures: list[Departure] = []
    for queue in queues:
        left = limit - len(dropped)
        rows = connection.execute(SQL["expired"], (queue, now, left)).fetchall()
        if rows:
            seqs = json_of_numbers(row[0] for row in rows)
            connection.execute(SETTLE["expire"], {"now": now, "seqs": seqs})
            fair.forfeit(connection, seqs)
            dropped += [Dropped(row[1], row[2], queue, "expired") for row in rows]
            departures += [
                Departure(limits, queue, priority)
                for _, _, _, limits, priority, phase in rows
                if limits and phase != WAITING
            ]
    if dropped:
        # Only now: one that waits for another of them, in whatever queue, ends as it does.
        lose_all(connection, [each.job_id for each in dropped], now)
    if departures:
        refill(connection, departures, now)
    return dropped


def earliest(*instants: float | None) -> float | None:
    """The first of some instants, if there is any."""
    return min((at for at in instants if at is not None), default=None)
