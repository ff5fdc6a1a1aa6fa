"""Handing out deliveries, and the housekeeping that comes before."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from taskmq.states import Event
from taskmq.transport import Delivery, Dropped, Exchange, Reservation
from taskmq.turns import Turns

from . import dependencies
from .rows import Row, json_of, json_of_numbers, load
from .settle import lose, write_back
from .statements import RESERVE as SQL
from .statements import SETTLE

__all__ = ["Survey", "drop_expired", "reclaim", "reclaim_from", "reserve", "survey"]

TIDY_LIMIT = 5_000
"""How many jobs of each kind and queue one exchange looks after: what a transaction, for which
others have to wait, can do in some 50 ms. What is left makes `Exchange.next_due_at` the present."""

Claimed = tuple[Any, ...]


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
        return _highest(self.tops)

    @property
    def next_due_at(self) -> float | None:
        return _earliest(self.visible_at, self.lease_until)


def survey(connection: sqlite3.Connection, queues: Iterable[str]) -> Survey:
    """Look what there is to do, without doing it."""
    rows = connection.execute(SQL["survey"], (json_of(queues),)).fetchall()
    tops = {queue: top for queue, top, _, _, _ in rows}
    _, _, visible, leases, expiries = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    return Survey(tops, _earliest(*visible), _earliest(*leases), _earliest(*expiries))


def reserve(
    connection: sqlite3.Connection, turns: Turns, wanted: Reservation, now: float
) -> Exchange:
    """Bring the queues up to date and lease the most urgent jobs, see
    `taskmq.transport.Reserver.exchange`."""
    dropped: list[Dropped] = []
    found = survey(connection, wanted.queues)
    if found.is_untidy(now):
        dropped = _tidy(connection, wanted.queues, now)
        found = survey(connection, wanted.queues)
    deliveries, tops = _claim(connection, turns, wanted, found.tops, now)
    next_due_at = found.next_due_at
    if deliveries:
        next_due_at = _earliest(next_due_at, deliveries[0].lease_until)
    return Exchange(
        deliveries=deliveries,
        dropped=dropped,
        next_due_at=now if found.is_untidy(now) else next_due_at,
        waiting_priority=_highest(tops),
    )


# -- housekeeping --------------------------------------------------------------------------------


def _tidy(connection: sqlite3.Connection, queues: Iterable[str], now: float) -> list[Dropped]:
    """Take back, drop and promote what is due; the jobs that left their queue so."""
    dropped: list[Dropped] = []
    for queue in queues:
        lost = [row for row in reclaim(connection, queue, now, TIDY_LIMIT) if row.dead_reason]
        dropped += [Dropped(row.id, row.task, queue, row.dead_reason or "") for row in lost]
    dropped += drop_expired(connection, queues, now, TIDY_LIMIT)
    for queue in queues:
        connection.execute(SQL["promote"], (queue, now, TIDY_LIMIT))
    return dropped


def reclaim(connection: sqlite3.Connection, queue: str, now: float, limit: int) -> list[Row]:
    """Take back jobs whose lease has ended."""
    seqs = connection.execute(SQL["overdue"], (queue, now, limit)).fetchall()
    return _take_back(connection, seqs, now, "its lease ended")


def reclaim_from(connection: sqlite3.Connection, worker_id: str, now: float) -> int:
    """Take back whatever a worker holds; how many jobs."""
    seqs = connection.execute(SQL["held_by"], (worker_id,)).fetchall()
    return len(_take_back(connection, seqs, now, "its worker is gone"))


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
    return rows


def drop_expired(
    connection: sqlite3.Connection, queues: Iterable[str], now: float, limit: int
) -> list[Dropped]:
    """End jobs that nobody started in time, at most ``limit``."""
    dropped: list[Dropped] = []
    for queue in queues:
        left = limit - len(dropped)
        rows = connection.execute(SQL["expired"], (queue, now, left)).fetchall()
        if rows:
            seqs = json_of_numbers(seq for seq, _, _ in rows)
            connection.execute(SETTLE["expire"], {"now": now, "seqs": seqs})
            dropped += [Dropped(job_id, task, queue, "expired") for _, job_id, task in rows]
    if dropped:
        # Only now: one that waits for another of them, in whatever queue, ends as it does.
        dependencies.skip(connection, [each.job_id for each in dropped], now)
    return dropped


# -- claims --------------------------------------------------------------------------------------


def _claim(
    connection: sqlite3.Connection,
    turns: Turns,
    wanted: Reservation,
    tops: Mapping[str, int | None],
    now: float,
) -> tuple[list[Delivery], Mapping[str, int | None]]:
    """Lease jobs, level by level; the deliveries, and the tops that are left."""
    deliveries: list[Delivery] = []
    while (left := wanted.limit - len(deliveries)) > 0:
        top = _highest(tops)
        if top is None:
            break
        before = len(deliveries)
        for queue, level, count in _shares(connection, turns, wanted.queues, tops, left):
            rows = _select(connection, queue, level, count, now)
            deliveries += _lease(connection, queue, rows, wanted, now)
        if len(tops) == 1 and len(deliveries) < wanted.limit:
            tops = dict.fromkeys(tops)  # the one queue gave all it had
            break
        tops = dict(connection.execute(SQL["tops"], (json_of(wanted.queues),)).fetchall())
        if len(deliveries) == before:
            break  # all of that level have expired, more than could be dropped at once
    return deliveries, tops


def _shares(
    connection: sqlite3.Connection,
    turns: Turns,
    weights: Mapping[str, int],
    tops: Mapping[str, int | None],
    limit: int,
) -> list[tuple[str, int | None, int]]:
    """What to take next: (queue, priority or ``None`` for any, how many)."""
    if len(tops) == 1:
        return [(queue, None, limit) for queue in tops]
    top = _highest(tops)
    level = [queue for queue, priority in tops.items() if priority == top]
    if len(level) == 1:
        return [(level[0], top, limit)]
    available = {
        queue: connection.execute(SQL["available"], (queue, top, limit)).fetchone()[0]
        for queue in level
    }
    return [(queue, top, count) for queue, count in turns.share(available, weights, limit).items()]


def _select(
    connection: sqlite3.Connection, queue: str, level: int | None, count: int, now: float
) -> list[Claimed]:
    if level is None:
        return connection.execute(SQL["claim"], (queue, now, count)).fetchall()
    return connection.execute(SQL["claim_level"], (queue, level, now, count)).fetchall()


def _lease(
    connection: sqlite3.Connection,
    queue: str,
    rows: list[Claimed],
    wanted: Reservation,
    now: float,
) -> list[Delivery]:
    if not rows:
        return []
    lease_until = now + wanted.lease
    seqs = json_of_numbers(row[0] for row in rows)
    connection.execute(SQL["lease"], (lease_until, now, wanted.worker, seqs))
    inputs = dependencies.inputs_of(connection, [row[0] for row in rows if row[8]])
    return [
        Delivery(
            job_id=row[1],
            queue=queue,
            priority=row[2],
            envelope=row[10],
            token=row[3] + 1,
            attempt=row[4],
            deliveries=row[5] + 1,
            reclaims=row[6],
            yields=row[7],
            lease_until=lease_until,
            parked_at=row[9],
            inputs=inputs.get(row[0]),
        )
        for row in rows
    ]


def _highest(tops: Mapping[str, int | None]) -> int | None:
    return max((top for top in tops.values() if top is not None), default=None)


def _earliest(*instants: float | None) -> float | None:
    return min((at for at in instants if at is not None), default=None)
