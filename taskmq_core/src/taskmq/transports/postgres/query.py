"""What readers see: jobs, queues. Statements that only read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from taskmq.codec import Payload
from taskmq.limits import Limit
from taskmq.records import Failure, Held, HistoryEntry, JobFilter, JobRecord, QueueStats
from taskmq.states import JobState
from taskmq.transport import Delivery, LeaseStatus

from .database import Database, Rows
from .wire import numbers, texts

__all__ = ["check", "extend", "find", "get", "stats"]

ASKED = (LeaseStatus.HELD, LeaseStatus.CANCEL_REQUESTED, LeaseStatus.TERMINATE_REQUESTED)
"""Column ``cancel_requested`` is a position in this."""
STATES = {state.value: state for state in JobState}

RECORD = """
SELECT
    id, task, queue, state, priority::int, attempt, deliveries, reclaims, max_deliveries,
    enqueued_at, visible_at, envelope, expires_at, started_at, finished_at,
    lease_until, worker, result_codec, result, failure, dead_reason,
    parked_reason, parked_at, cancel_requested > 0, pending, workflow,
    CASE WHEN history IS NOT NULL THEN '[' || array_to_string(history, ',') || ']' END,
    limits, CASE WHEN phase = -1 THEN substr(gate, 6) END,
    CASE WHEN phase = -1 THEN (
        SELECT count(*) FROM taskmq.jobs AS holder
        WHERE holder.gate = 'runs ' || substr(job.gate, 6)
    ) END,
    revoked_by, revoked_at, delegated_to
FROM taskmq.jobs AS job
"""

STATS = """
SELECT queue, 'ready', priority::int, count(*), min(visible_at), 0 FROM taskmq.jobs
WHERE phase = 2 {only} GROUP BY queue, priority
UNION ALL
SELECT queue, 'ready', priority::int, count(*), min(visible_at), 0 FROM taskmq.jobs
WHERE phase = 3 AND visible_at <= taskmq.instant(%(now)s::float8)
{only} GROUP BY queue, priority
UNION ALL
SELECT queue, 'delayed', 0, count(*), NULL, count(park_until) FROM taskmq.jobs
WHERE phase = 3 AND visible_at > taskmq.instant(%(now)s::float8)
{only} GROUP BY queue
UNION ALL
SELECT queue, 'running', 0, sum(held), NULL, 0 FROM taskmq.handouts WHERE true {only} GROUP BY queue
UNION ALL
SELECT queue, CASE phase WHEN -1 THEN 'held' WHEN 0 THEN 'waiting' ELSE 'dead' END, 0, count(*),
    NULL, 0
FROM taskmq.jobs WHERE phase <= 1 {only} GROUP BY queue, phase
"""

MEMBERS = "SELECT members.seq FROM taskmq.members WHERE members.workflow = %s"
PLACE = "(SELECT jobs.seq FROM taskmq.jobs WHERE jobs.id = %s)"

HOLDERS = """
SELECT job.id, job.token, cancel_requested::int
FROM unnest(%s::text[], %s::bigint[]) AS g (id, token)
JOIN taskmq.jobs AS job
    ON seq = g.token >> 20 AND job.token = g.token AND job.id = g.id AND state = 'RUNNING'
"""
EXTEND = "SELECT * FROM taskmq.extend(%s::float8, %s::float8, %s::text[], %s::bigint[])"

_decode_failure = msgspec.json.Decoder(Failure).decode
_decode_history = msgspec.json.Decoder(tuple[HistoryEntry, ...]).decode
_decode_limits = msgspec.json.Decoder(tuple[Limit, ...]).decode


def get(database: Database, job_ids: Sequence[str]) -> list[JobRecord | None]:
    """See `taskmq.transport.JobStore.get`."""
    rows = database.call(f"{RECORD} WHERE id = ANY (%s::text[])", (texts(job_ids),))
    found = {row[0]: _record(row) for row in rows}
    return [found.get(job_id) for job_id in job_ids]


def find(database: Database, wanted: JobFilter) -> list[JobRecord]:
    """See `taskmq.transport.JobStore.find`."""
    given = list(_conditions(wanted))
    where = " AND ".join(["true", *(condition for condition, _ in given)])
    values = [value for _, of_one in given for value in of_one]
    query = f"{RECORD} WHERE {where} ORDER BY seq LIMIT %s"
    return [_record(row) for row in database.call(query, (*values, wanted.limit))]


def _conditions(wanted: JobFilter) -> Iterator[tuple[str, Sequence[object]]]:
    """Each condition that is given, and its values."""
    if wanted.states:
        yield "state = ANY (%s::text[])", (texts([state.value for state in wanted.states]),)
    if wanted.ids:
        yield "id = ANY (%s::text[])", (texts(wanted.ids),)
    if wanted.workflow is not None:
        members, values = MEMBERS, [wanted.workflow]
        if wanted.after is not None:
            members, values = f"{MEMBERS} AND members.seq > {PLACE}", [*values, wanted.after]
        yield f"seq IN ({members})", values
    for column in ("queue", "task", "key"):
        value = getattr(wanted, column)
        if value is not None:
            yield f"{column} = %s", (value,)
    if wanted.stopping is not None:
        yield f"cancel_requested {'>' if wanted.stopping else '='} 0", ()
    if wanted.after is not None:
        yield f"seq > {PLACE}", (wanted.after,)
    if wanted.dead is not None:
        yield ("phase = 1 AND phase <= 1" if wanted.dead else "phase <> 1"), ()
    if wanted.revoked is not None:
        yield f"revoked_at IS {'NOT ' if wanted.revoked else ''}NULL", ()
    if wanted.parked is not None:
        yield f"park_until IS {'NOT ' if wanted.parked else ''}NULL", ()


def _record(row: tuple[Any, ...]) -> JobRecord:
    """A record from the columns of statement ``RECORD``."""
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
        envelope=row[11],
        expires_at=row[12],
        started_at=row[13],
        finished_at=row[14],
        lease_until=row[15],
        worker=row[16],
        result=None if row[17] is None else Payload(row[17], row[18]),
        failure=None if row[19] is None else _decode_failure(row[19]),
        dead_reason=row[20],
        parked_reason=row[21],
        parked_at=row[22],
        cancel_requested=row[23],
        pending=row[24],
        workflow=row[25],
        history=() if row[26] is None else _decode_history(row[26]),
        held=None if row[28] is None else _held(row[27], row[28], row[29]),
        revoked_by=row[30],
        revoked_at=row[31],
        delegated_to=row[32],
    )


def _held(limits: str | None, gate: str, running: int) -> Held | None:
    """``None`` for a job that its workflow's pause holds."""
    own = () if limits is None else _decode_limits(limits)
    return next((Held(limit=each, running=running) for each in own if each.gate == gate), None)


def stats(database: Database, queues: Sequence[str] | None, now: float | None) -> list[QueueStats]:
    """See `taskmq.transport.JobStore.stats`: all of it at one moment."""
    only = "" if queues is None else "AND queue = ANY (%(queues)s::text[])"
    query = STATS.format(only=only)
    given = {"now": now, "queues": None if queues is None else texts(queues)}
    rows = database.call(query, given)
    by_queue: dict[str, Rows] = {queue: [] for queue in queues or ()}
    for row in rows:
        by_queue.setdefault(row[0], []).append(row)
    return [_stats_of(queue, by_queue[queue]) for queue in sorted(by_queue)]


def _stats_of(queue: str, rows: Rows) -> QueueStats:
    counts = dict.fromkeys(("ready", "delayed", "running", "waiting", "held", "dead"), 0)
    by_priority: dict[int, int] = {}
    oldest: list[float] = []
    parked = 0
    for _, kind, priority, number, visible_at, of_them_parked in rows:
        counts[kind] += number
        parked += of_them_parked
        if kind == "ready":
            by_priority[priority] = by_priority.get(priority, 0) + number
            oldest.append(visible_at)
    return QueueStats(
        queue=queue,
        parked=parked,
        oldest_ready_at=min(oldest, default=None),
        ready_by_priority=by_priority,
        **counts,
    )


def extend(
    database: Database, deliveries: Sequence[Delivery], lease: float, now: float | None
) -> list[LeaseStatus]:
    """See `taskmq.transport.Reserver.extend`."""
    return _statuses(deliveries, database.call(EXTEND, (now, lease, *_names(deliveries))))


def check(database: Database, deliveries: Sequence[Delivery]) -> list[LeaseStatus]:
    """See `taskmq.transport.Reserver.check`."""
    return _statuses(deliveries, database.call(HOLDERS, _names(deliveries)))


def _names(deliveries: Sequence[Delivery]) -> tuple[str, str]:
    ids = texts([delivery.job_id for delivery in deliveries])
    return ids, numbers([delivery.token for delivery in deliveries])


def _statuses(deliveries: Sequence[Delivery], rows: Rows) -> list[LeaseStatus]:
    asked = {(job_id, token): how for job_id, token, how in rows}
    held = [asked.get((delivery.job_id, delivery.token)) for delivery in deliveries]
    return [LeaseStatus.LOST if how is None else ASKED[how] for how in held]
