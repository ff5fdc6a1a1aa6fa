"""The ways in which a job ends without success, or goes back, and what follows for others."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from taskmq.envelope import Sealed
from taskmq.records import Failure, Readied
from taskmq.states import TERMINAL, Event
from taskmq.transport import LeaseStatus

from . import dependencies, fair
from .gates import Departure, limits_text, refill
from .rows import (
    DEAD,
    FINISHED,
    RUNNING,
    WAITING,
    Row,
    json_of,
    json_of_numbers,
    replace_envelope,
    save,
)
from .statements import DEPENDENCIES, SETTLE, UPKEEP

__all__ = [
    "ASKED",
    "Place",
    "back",
    "departures_of",
    "give_up",
    "lose",
    "lose_all",
    "places_of",
    "replace",
    "revoke",
    "write_back",
]

WORKER_LOST = "worker_lost"
BY_WORKFLOW = "workflow"

ASKED = (LeaseStatus.HELD, LeaseStatus.CANCEL_REQUESTED, LeaseStatus.TERMINATE_REQUESTED)
"""Column ``cancel_requested`` is a position in this."""


class Place(NamedTuple):
    """Where a job is."""

    seq: int
    phase: int
    limits: str | None
    queue: str
    priority: int


def lose(row: Row, event: Event, now: float, *, visible_at: float, why: str) -> None:
    """A delivery came to nothing: run the job again, or make it a dead letter."""
    row.reclaims += 1
    if row.cancel_requested:
        row.move(Event.REVOKE, now)
    elif row.on_receipt or row.reclaims >= row.max_deliveries:
        give_up(row, WORKER_LOST, now)
    else:
        row.note(event, now, why)
        back(row, event, now, visible_at)


def give_up(row: Row, reason: str, now: float, failure: Failure | None = None) -> None:
    """Into the dead letters."""
    text = f"{reason}: {failure.type}: {failure.message}" if failure else reason
    row.note(Event.DEAD, now, text)
    row.dead_reason = reason
    if failure is not None:
        row.blame(failure)
    row.move(Event.DEAD, now)


def back(row: Row, event: Event, now: float, visible_at: float) -> None:
    """Into the queue again, unless somebody asked it to stop."""
    if row.cancel_requested:
        row.move(Event.REVOKE, now)
    else:
        row.visible_at = visible_at
        row.move(event, now)


def replace(connection: sqlite3.Connection, row: Row, sealed: Sealed) -> None:
    """Give a job another envelope, with all that comes from it and may change."""
    envelope = sealed.envelope
    if (row.queue, row.priority) != (envelope.queue, envelope.priority):
        fair.leave(connection, row.seq)
    row.task, row.queue, row.priority = envelope.task, envelope.queue, envelope.priority
    row.expires_at = envelope.expires_at
    row.on_receipt = envelope.ack == "on_receipt"
    row.max_deliveries = envelope.max_deliveries
    row.keep_result, row.result_ttl = envelope.store_result, envelope.result_ttl
    row.limits = limits_text(envelope.limits)
    replace_envelope(connection, row.seq, sealed.data)


def departures_of(rows: Iterable[Row]) -> list[Departure]:
    """What follows for the gates if these jobs run no longer, or will not run."""
    return [Departure(row.limits, row.queue, row.priority) for row in rows if row.limits]


def write_back(connection: sqlite3.Connection, rows: Collection[Row], now: float) -> list[Readied]:
    """Write rows that were moved, and let those hear that wait for what is lost now. What is ready
    because of that."""
    save(connection, rows)
    return lose_all(connection, [row.id for row in rows if row.state in TERMINAL], now)


def lose_all(connection: sqlite3.Connection, lost: Sequence[str], now: float) -> list[Readied]:
    """Jobs are lost: others hear of it, and workflows end that are to fail fast. What is ready
    because of that."""
    readied = dependencies.spread(connection, lost, now)
    if not lost or not dependencies.any_nodes(connection):
        return readied
    ending = connection.execute(DEPENDENCIES["fail_fast"], (json_of(lost),)).fetchall()
    for workflow in dict.fromkeys(name for (name,) in ending):
        members = connection.execute(DEPENDENCIES["members"], (workflow,)).fetchall()
        places = _open_places(connection, [job_id for (job_id,) in members])
        readied += _take_out(connection, places, now, False, BY_WORKFLOW)
    return readied


def revoke(
    connection: sqlite3.Connection, job_ids: Sequence[str], now: float, terminate: bool, by: str
) -> list[bool]:
    """See `taskmq.transport.JobStore.revoke`."""
    places = _open_places(connection, job_ids)
    _take_out(connection, places, now, terminate, by)
    return [job_id in places for job_id in job_ids]


def _open_places(connection: sqlite3.Connection, job_ids: Sequence[str]) -> dict[str, Place]:
    places = places_of(connection, job_ids)
    return {id: place for id, place in places.items() if place.phase not in (DEAD, FINISHED)}


def _take_out(
    connection: sqlite3.Connection,
    open_jobs: Mapping[str, Place],
    now: float,
    terminate: bool,
    by: str,
) -> list[Readied]:
    readied: list[Readied] = []
    running = [place.seq for place in open_jobs.values() if place.phase == RUNNING]
    unstarted = {id: place.seq for id, place in open_jobs.items() if place.phase != RUNNING}
    if running:
        asked = LeaseStatus.TERMINATE_REQUESTED if terminate else LeaseStatus.CANCEL_REQUESTED
        asking = {"how": ASKED.index(asked), "by": by, "now": now, "seqs": json_of_numbers(running)}
        connection.execute(SETTLE["ask_to_stop"], asking)
    if unstarted:
        seqs = json_of_numbers(unstarted.values())
        connection.execute(SETTLE["revoke"], {"now": now, "by": by, "seqs": seqs})
        fair.forfeit(connection, seqs)
        readied = dependencies.spread(connection, list(unstarted), now)
        departures = [
            Departure(place.limits, place.queue, place.priority)
            for place in open_jobs.values()
            if place.limits and place.phase not in (RUNNING, WAITING)
        ]
        if departures:
            refill(connection, departures, now)
    return readied


def places_of(connection: sqlite3.Connection, job_ids: Sequence[str]) -> dict[str, Place]:
    """Where each of these jobs is, if it is stored."""
    rows = connection.execute(UPKEEP["places"], (json_of(job_ids),)).fetchall()
    return {job_id: Place(*place) for job_id, *place in rows}
