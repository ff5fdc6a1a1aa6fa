"""Workers and named leases."""

from __future__ import annotations

from sqlite3 import Connection

import msgspec

from taskmq.records import Reclaimed, WorkerRecord

from .reserve import dropped_of, reclaim_from
from .statements import REGISTRY as SQL

__all__ = ["acquire", "deregister", "holder", "reclaim", "register", "surrender", "workers"]

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(WorkerRecord).decode


def register(connection: Connection, worker: WorkerRecord) -> None:
    """See `taskmq.transport.WorkerRegistry.register`."""
    connection.execute(SQL["register"], (worker.id, _encode(worker).decode()))


def deregister(connection: Connection, worker_id: str) -> None:
    """See `taskmq.transport.WorkerRegistry.deregister`."""
    connection.execute(SQL["deregister"], (worker_id,))


def reclaim(connection: Connection, worker: WorkerRecord, now: float) -> Reclaimed:
    """See `taskmq.transport.WorkerRegistry.reclaim`."""
    row = connection.execute(SQL["entry"], (worker.id,)).fetchone()
    if row is None or not _decode(row[0]).is_same_run(worker):
        return Reclaimed()
    deregister(connection, worker.id)
    taken = reclaim_from(connection, worker.id, now)
    return Reclaimed(len(taken), tuple(dropped_of(taken)))


def workers(connection: Connection) -> list[WorkerRecord]:
    """See `taskmq.transport.WorkerRegistry.workers`."""
    return [_decode(record) for (record,) in connection.execute(SQL["workers"]).fetchall()]


def holder(connection: Connection, name: str, now: float) -> str | None:
    """Who has a named lease."""
    row = connection.execute(SQL["holder"], (name, now)).fetchone()
    return None if row is None else str(row[0])


def acquire(connection: Connection, name: str, owner: str, now: float, ttl: float) -> bool:
    """See `taskmq.transport.NamedLeases.acquire`."""
    return connection.execute(SQL["acquire"], (name, owner, now + ttl, now)).rowcount == 1


def surrender(connection: Connection, name: str, owner: str, now: float) -> bool:
    """See `taskmq.transport.NamedLeases.surrender`."""
    return connection.execute(SQL["surrender"], (name, owner, now)).rowcount == 1
