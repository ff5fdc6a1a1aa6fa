"""What readers see: jobs, queues."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from taskmq.codec import Payload
from taskmq.records import Failure, Held, HistoryEntry, JobFilter, JobRecord, QueueStats
from taskmq.states import JobState

from .gates import limits_of
from .rows import DEAD, HELD, RUNNING, WAITING, json_of
from .statements import QUERY as SQL

__all__ = ["find", "get", "stats"]

_decode_failure = msgspec.json.Decoder(Failure).decode
_decode_history = msgspec.json.Decoder(tuple[HistoryEntry, ...]).decode

STATES = {state.value: state for state in JobState}


def get(connection: sqlite3.Connection, job_ids: Sequence[str]) -> list[JobRecord | None]:
    """See `taskmq.transport.JobStore.get`."""
    rows = connection.execute(f"{SQL['record']} WHERE {SQL['by_id']}", (json_of(job_ids),))
    found = {row[0]: _record(row) for row in rows.fetchall()}
    return [found.get(job_id) for job_id in job_ids]


def find(connection: sqlite3.Connection, wanted: JobFilter) -> list[JobRecord]:
    """See `taskmq.transport.JobStore.find`."""
    given = list(_conditions(wanted))
    where = " AND ".join(["true", *(SQL[name] for name, _ in given)])
    values = [value for _, of_one in given for value in of_one]
    sql = f"{SQL['record']} WHERE {where} ORDER BY jobs.seq LIMIT ?"
    return [_record(row) for row in connection.execute(sql, (*values, wanted.limit)).fetchall()]


def _conditions(wanted: JobFilter) -> Iterator[tuple[str, tuple[object, ...]]]:
    """The name of each condition that is given, and its values."""
    if wanted.states:
        yield "with_state", (json_of([state.value for state in wanted.states]),)
    if wanted.ids:
        yield "by_id", (json_of(wanted.ids),)
    if wanted.queue is not None:
        yield "in_queue", (wanted.queue,)
    if wanted.task is not None:
        yield "of_task", (wanted.task,)
    if wanted.key is not None:
        yield "with_key", (wanted.key,)
    if wanted.workflow is not None:
        yield "in_workflow", (wanted.workflow,)
    if wanted.stopping is not None:
        yield "is_stopping" if wanted.stopping else "not_stopping", ()
    if wanted.revoked is not None:
        yield "is_revoked" if wanted.revoked else "not_revoked", ()
    if wanted.after is not None:
        yield "behind", (wanted.after,)
    if wanted.dead is not None:
        yield "dead" if wanted.dead else "not_dead", ()
    if wanted.parked is not None:
        yield "is_parked" if wanted.parked else "not_parked", ()


def _record(row: tuple[Any, ...]) -> JobRecord:
    """A record from the columns of statement ``record``."""
    failure, history = row[20], row[27]
    return JobRecord(
        id=row[0],
        task=row[1],
        queue=row[2],
        state=STATES[row[3]],
        priority=row[4],
        attempt=row[5],
        deliveries=row[6],
        reclaims=row[7],
        max_deliveries=row[8],
        enqueued_at=row[9],
        visible_at=row[10],
        envelope=row[11] or b"",
        expires_at=row[12],
        started_at=row[13],
        finished_at=row[14],
        lease_until=row[16] if row[15] == RUNNING else None,
        worker=row[17],
        result=None if row[18] is None else Payload(row[18], row[19]),
        failure=None if failure is None else _decode_failure(failure),
        dead_reason=row[21],
        parked_reason=row[22],
        parked_at=row[23],
        cancel_requested=bool(row[24]),
        revoked_by=row[31],
        revoked_at=row[32],
        pending=row[25],
        workflow=row[26],
        delegated_to=row[33],
        held=None if row[30] is None else _held(row[28], row[29], row[30]),
        history=() if history is None else _decode_history(history),
    )


def _held(limits: str | None, gate: str, running: int) -> Held | None:
    """``None`` for a job that its workflow's pause holds."""
    own = () if limits is None else limits_of(limits)
    return next((Held(limit=each, running=running) for each in own if each.gate == gate), None)


def stats(
    connection: sqlite3.Connection, queues: Sequence[str] | None, now: float
) -> list[QueueStats]:
    """See `taskmq.transport.JobStore.stats`: all of it at one moment."""
    connection.execute("BEGIN")
    names = queues
    if names is None:
        names = [name for (name,) in connection.execute(SQL["queues"]).fetchall()]
    found = [_stats_of(connection, name, now) for name in sorted(set(names))]
    connection.execute("COMMIT")
    return found


def _stats_of(connection: sqlite3.Connection, queue: str, now: float) -> QueueStats:
    def count(statement: str, *values: object) -> int:
        (number,) = connection.execute(SQL[statement], (queue, *values)).fetchone()
        return int(number)

    by_priority: dict[int, int] = {}
    oldest: list[float] = []
    for statement, values in (("ready", (queue,)), ("due", (queue, now))):
        for priority, number, visible_at in connection.execute(SQL[statement], values).fetchall():
            by_priority[priority] = by_priority.get(priority, 0) + number
            oldest.append(visible_at)
    return QueueStats(
        queue=queue,
        ready=sum(by_priority.values()),
        delayed=count("delayed", now),
        running=count("running"),
        held=count("resting", HELD),
        waiting=count("resting", WAITING),
        parked=count("parked", now),
        dead=count("resting", DEAD),
        oldest_ready_at=min(oldest, default=None),
        ready_by_priority=by_priority,
    )
