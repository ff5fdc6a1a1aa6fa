"""What people decided about queues: which are paused."""

from __future__ import annotations

from sqlite3 import Connection

import msgspec

from taskmq.records import PausedQueue
from taskmq.transport import Reservation

from .statements import CONTROL as SQL

__all__ = ["pause", "paused", "respect_pauses", "resume"]


def pause(connection: Connection, wanted: PausedQueue) -> bool:
    """See `taskmq.transport.QueueControl.pause`."""
    values = (wanted.queue, wanted.by, wanted.paused_at, wanted.reason)
    return connection.execute(SQL["pause"], values).rowcount == 1


def resume(connection: Connection, queue: str) -> bool:
    """See `taskmq.transport.QueueControl.resume`."""
    return connection.execute(SQL["resume"], (queue,)).rowcount == 1


def paused(connection: Connection) -> list[PausedQueue]:
    """See `taskmq.transport.QueueControl.paused`."""
    return [
        PausedQueue(queue=queue, by=by, paused_at=at, reason=reason)
        for queue, by, at, reason in connection.execute(SQL["paused"]).fetchall()
    ]


def respect_pauses(connection: Connection, wanted: Reservation) -> Reservation:
    """The same, with a quota of 0 for the queues that are paused."""
    rows = connection.execute(SQL["names"]).fetchall()
    if not rows:
        return wanted
    quotas = {**wanted.quotas, **dict.fromkeys((queue for (queue,) in rows), 0)}
    return msgspec.structs.replace(wanted, quotas=quotas)
