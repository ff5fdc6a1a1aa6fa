"""Workers, named leases, pauses and documents: small statements."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from taskmq.documents import Document, DocumentChange
from taskmq.records import PausedQueue, PausedWorkflow, WorkerRecord

from .database import Database
from .wire import array, texts

__all__ = [
    "acquire",
    "deregister",
    "documents",
    "entry_of",
    "pause",
    "paused",
    "paused_workflows",
    "register",
    "surrender",
    "workers",
    "write",
]

REGISTER = """
INSERT INTO taskmq.workers AS entry (id, heartbeat_at, record) VALUES (%s, %s::float8, %s)
ON CONFLICT (id) DO UPDATE SET heartbeat_at = excluded.heartbeat_at, record = excluded.record
WHERE entry.heartbeat_at <= excluded.heartbeat_at
   OR (entry.record::json->>'started_at')::float8 <= (excluded.record::json->>'started_at')::float8
RETURNING 1
"""
DEREGISTER = "DELETE FROM taskmq.workers WHERE id = %s RETURNING 1"
ENTRY = "SELECT record FROM taskmq.workers WHERE id = %s"
WORKERS = "SELECT record FROM taskmq.workers ORDER BY id"
ACQUIRE = """
INSERT INTO taskmq.leases AS lease (name, owner, expires_at)
VALUES (%(name)s, %(owner)s, taskmq.instant(%(now)s::float8) + %(ttl)s::float8)
ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, expires_at = excluded.expires_at
WHERE lease.owner = excluded.owner OR lease.expires_at <= taskmq.instant(%(now)s::float8)
RETURNING 1
"""
HOLDER = """
SELECT owner FROM taskmq.leases
WHERE name = %(name)s AND expires_at > taskmq.instant(%(now)s::float8)
"""
SURRENDER = """
DELETE FROM taskmq.leases
WHERE name = %(name)s AND owner = %(owner)s AND expires_at > taskmq.instant(%(now)s::float8)
RETURNING 1
"""
PAUSE = """
INSERT INTO taskmq.paused (queue, by, paused_at, reason)
VALUES (%(queue)s, %(by)s, taskmq.instant(%(now)s::float8), %(reason)s)
ON CONFLICT DO NOTHING RETURNING 1
"""
PAUSED = "SELECT queue, by, paused_at, reason FROM taskmq.paused ORDER BY queue"
PAUSED_WORKFLOWS = """
SELECT workflow, by, paused_at, reason FROM taskmq.paused_workflows ORDER BY workflow
"""
DOCUMENTS = """
SELECT kind, name, data, revision FROM taskmq.documents
WHERE kind = %s AND (%s::text[] IS NULL OR name = ANY (%s::text[])) ORDER BY name
"""
WRITE = "SELECT taskmq.write_documents(%s::text[], %s::text[], %s::bytea[], %s::text[], %s::text[])"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(WorkerRecord).decode


def register(database: Database, worker: WorkerRecord) -> None:
    """See `taskmq.transport.WorkerRegistry.register`."""
    record = _encode(worker).decode()
    statement = REGISTER
    database.call(statement, (worker.id, worker.heartbeat_at, record))


def deregister(database: Database, worker_id: str) -> None:
    """See `taskmq.transport.WorkerRegistry.deregister`."""
    database.call(DEREGISTER, (worker_id,))


def entry_of(database: Database, worker: WorkerRecord) -> str | None:
    """What is registered of this very worker, as it is stored."""
    rows = database.call(ENTRY, (worker.id,))
    if not rows or not _decode(rows[0][0]).is_same_run(worker):
        return None
    return str(rows[0][0])


def workers(database: Database) -> list[WorkerRecord]:
    """See `taskmq.transport.WorkerRegistry.workers`."""
    rows = database.call(WORKERS)
    return [_decode(record) for (record,) in rows]


def acquire(database: Database, name: str, owner: str, ttl: float, now: float | None) -> bool:
    """See `taskmq.transport.NamedLeases.acquire`."""
    given = {"name": name, "owner": owner, "ttl": ttl, "now": now}
    holder = database.call(HOLDER, given)
    if holder and holder[0][0] != owner:
        return False  # without writing: those who wait for leadership ask often
    return bool(database.call(ACQUIRE, given))


def surrender(database: Database, name: str, owner: str, now: float | None) -> bool:
    """See `taskmq.transport.NamedLeases.surrender`."""
    given = {"name": name, "owner": owner, "now": now}
    return bool(database.call(SURRENDER, given))


def pause(database: Database, queue: str, by: str, reason: str, now: float | None) -> bool:
    """See `taskmq.transport.QueueControl.pause`."""
    given = {"queue": queue, "by": by, "reason": reason, "now": now}
    return bool(database.call(PAUSE, given))


def paused(database: Database) -> list[PausedQueue]:
    """See `taskmq.transport.QueueControl.paused`."""
    return [
        PausedQueue(queue=queue, by=by, paused_at=at, reason=reason)
        for queue, by, at, reason in database.call(PAUSED)
    ]


def paused_workflows(database: Database) -> list[PausedWorkflow]:
    """See `taskmq.transport.WorkflowControl.paused_workflows`."""
    return [
        PausedWorkflow(workflow=workflow, by=by, paused_at=at, reason=reason)
        for workflow, by, at, reason in database.call(PAUSED_WORKFLOWS)
    ]


def documents(database: Database, kind: str, names: Sequence[str] | None) -> list[Document]:
    """See `taskmq.transport.Documents.documents`."""
    only = None if names is None else texts(names)
    rows = database.call(DOCUMENTS, (kind, only, only))
    return [
        Document(kind=kind, name=name, data=data, revision=revision)
        for kind, name, data, revision in rows
    ]


def write(database: Database, changes: Sequence[DocumentChange]) -> list[bool]:
    """See `taskmq.transport.Documents.write`."""
    values = (
        texts([change.kind for change in changes]),
        texts([change.name for change in changes]),
        array([change.data for change in changes]),
        texts([change.revision for change in changes]),
        texts([change.expected for change in changes]),
    )
    return list(database.call(WRITE, values)[0][0])
