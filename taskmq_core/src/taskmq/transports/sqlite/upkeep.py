"""Housekeeping that no worker waits for, and what people do to jobs that nobody runs."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from taskmq.envelope import Sealed
from taskmq.records import WORKER_MEMORY, MaintenanceReport
from taskmq.states import Event

from . import dependencies
from .endings import departures_of, give_up, places_of, replace, revoke, write_back
from .gates import refill
from .reserve import drop_expired, dropped_of, reclaim
from .rows import DEAD, FINISHED, RUNNING, Row, json_of, json_of_numbers, load
from .statements import CONTROL, FAIR, REGISTRY, SETTLE
from .statements import UPKEEP as SQL

__all__ = [
    "any_parked",
    "delete",
    "is_due",
    "is_mostly_unused",
    "maintain",
    "purge",
    "replay",
    "revoke",
    "shrink",
    "unpark",
]

SHRINK_PAGES = 1000
"""How much a maintenance gives back to the file system: 2 MB."""


def is_due(connection: sqlite3.Connection, now: float) -> bool:
    """Whether there is anything to maintain. Reads only: a store at rest is not written to."""

    def instants(statement: str, *values: object) -> list[float]:
        rows = connection.execute(SQL[statement], values).fetchall()
        return [at for (at,) in rows if at is not None]

    every = instants("next_forsaken") + instants("next_key") + instants("next_rate")
    every += [at for (at,) in connection.execute(REGISTRY["next_lease_end"]) if at is not None]
    for phase in (RUNNING, FINISHED):
        for queue in _queues_in(connection, phase):
            every += instants("next_timed", phase, queue)
    for queue in _expiring_queues(connection):
        every += instants("next_expiry", queue)
    if any(at <= now for at in every):
        return True
    if connection.execute(CONTROL["any_idle_pause"]).fetchone()[0]:
        return True
    return bool(connection.execute(REGISTRY["silent"], (now - WORKER_MEMORY,)).fetchone()[0])


def maintain(connection: sqlite3.Connection, now: float, limit: int) -> MaintenanceReport:
    """See `taskmq.transport.Transport.maintain`."""
    reclaimed: list[Row] = []
    for queue in _queues_in(connection, RUNNING):
        reclaimed += reclaim(connection, queue, now, limit - len(reclaimed))
    expired = drop_expired(connection, _expiring_queues(connection), now, limit)
    forsaken = _give_up_forsaken(connection, now, limit)
    purged = 0
    connection.execute(SQL["retire_rates"], (now, limit))
    connection.execute(REGISTRY["retire_leases"], (now, limit))
    connection.execute(FAIR["forget_served"])
    connection.execute(CONTROL["forget_idle_pauses"])
    for queue in _queues_in(connection, FINISHED):
        purged += connection.execute(SQL["retire"], (queue, now, limit - purged)).rowcount
    return MaintenanceReport(
        reclaimed=len(reclaimed),
        expired=len(expired),
        dead=len(forsaken) + sum(row.dead_reason is not None for row in reclaimed),
        purged=purged,
        keys_purged=connection.execute(SQL["retire_keys"], (now, limit)).rowcount,
        workers_forgotten=connection.execute(REGISTRY["forget"], (now - WORKER_MEMORY,)).rowcount,
        dropped=(*dropped_of(reclaimed), *expired, *dropped_of(forsaken)),
    )


def _give_up_forsaken(connection: sqlite3.Connection, now: float, limit: int) -> list[Row]:
    seqs = [seq for (seq,) in connection.execute(SQL["forsaken"], (now, limit)).fetchall()]
    rows = list(load(connection, seqs).values())
    departures = departures_of(rows)
    for row in rows:
        give_up(row, row.parked_reason or "parked", now)
    write_back(connection, rows, now)
    if departures:
        refill(connection, departures, now)
    return rows


def is_mostly_unused(connection: sqlite3.Connection) -> bool:
    """Whether the file is so much larger than what is in it that it is worth moving pages."""
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (unused,) = connection.execute("PRAGMA freelist_count").fetchone()
    return bool(unused > SHRINK_PAGES and unused > pages // 2)


def shrink(connection: sqlite3.Connection) -> None:
    """Give some unused space back to the file system."""
    for _ in range(SHRINK_PAGES):
        # A page each time: the statement gives no rows, so that sqlite3 takes one step of it only.
        connection.execute("PRAGMA incremental_vacuum(1)")


def _queues_in(connection: sqlite3.Connection, phase: int) -> list[str]:
    rows = connection.execute(SQL["timed_queues"], {"phase": phase}).fetchall()
    return [name for (name,) in rows]


def _expiring_queues(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute(SQL["expiring_queues"]).fetchall()]


# -- at somebody's request -----------------------------------------------------------------------


def delete(connection: sqlite3.Connection, job_ids: Sequence[str], phase: int) -> int:
    """Delete those of these jobs that are in a phase; how many there were."""
    places = places_of(connection, job_ids)
    seqs = [place.seq for place in places.values() if place.phase == phase]
    if seqs:
        connection.execute(SETTLE["delete"], (json_of_numbers(seqs),))
    return len(seqs)


def purge(connection: sqlite3.Connection, queue: str, now: float) -> int:
    """See `taskmq.transport.JobStore.purge`."""
    if dependencies.any_edges(connection):
        # Which they are before others, which run although these are lost, join them.
        seqs = json_of_numbers(seq for (seq,) in connection.execute(SQL["queued"], (queue,)))
        parents = connection.execute(SQL["depended_on"], (queue,)).fetchall()
        connection.execute(SQL["free_keys"], {"queue": queue})
        dependencies.spread(connection, [job_id for (job_id,) in parents], now)
        return connection.execute(SETTLE["delete"], (seqs,)).rowcount
    connection.execute(SQL["free_keys"], {"queue": queue})
    ready = connection.execute(SQL["purge_ready"], (queue,)).rowcount
    ready += connection.execute(SQL["purge_held"], (queue,)).rowcount
    return ready + connection.execute(SQL["purge_delayed"], (queue,)).rowcount


def replay(
    connection: sqlite3.Connection,
    job_ids: Sequence[str],
    envelopes: Mapping[str, Sealed],
    now: float,
) -> list[bool]:
    """See `taskmq.transport.DeadLetters.replay`."""
    places = places_of(connection, job_ids)
    rows = load(connection, [place.seq for place in places.values() if place.phase == DEAD])
    dead = {row.id: row for row in rows.values()}
    for job_id, row in dead.items():
        if job_id in envelopes:
            replace(connection, row, envelopes[job_id])
        row.note(Event.REPLAY, now)
        row.attempt, row.deliveries, row.reclaims, row.yields = 1, 0, 0, 0
        row.started_at = row.finished_at = row.worker = row.failure = row.dead_reason = None
        row.cancel_requested, row.visible_at = 0, now
        row.move(Event.REPLAY, now)
    write_back(connection, dead.values(), now)
    connection.execute(SETTLE["forget_revocation"], (json_of_numbers(rows),))
    dependencies.restore(connection, dead)
    replayed = [dead.pop(job_id, None) for job_id in job_ids]  # named twice: replayed once
    return [row is not None for row in replayed]


def any_parked(connection: sqlite3.Connection) -> bool:
    """Whether any job is parked."""
    return bool(connection.execute(SQL["any_parked"]).fetchone()[0])


def unpark(connection: sqlite3.Connection, tasks: Sequence[str], now: float) -> int:
    """See `taskmq.transport.WorkerRegistry.unpark`."""
    return connection.execute(SQL["unpark"], {"now": now, "tasks": json_of(tasks)}).rowcount
