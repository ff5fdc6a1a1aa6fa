"""What settlements do to workflows: jobs that are added to them, and jobs that delegate."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence

from taskmq.envelope import Sealed
from taskmq.records import Readied

from . import dependencies
from .enqueue import enqueue
from .rows import json_of
from .statements import DEPENDENCIES as SQL

__all__ = ["delegate", "spawn"]


def spawn(
    connection: sqlite3.Connection, job_id: str, batch: Sequence[Sealed], now: float
) -> list[Readied]:
    """Store jobs; whoever waits for the one that spawned them waits for them, too, and so do those
    that wait for one that has delegated to it. What need not wait."""
    enqueue(connection, batch, now)
    spawned = [sealed.envelope.id for sealed in batch]
    waiting: Counter[int] = Counter()
    spawners = [job_id]
    while spawners:
        values = {"id": spawners.pop(), "spawned": json_of(spawned)}
        spawners += [found for (found,) in connection.execute(SQL["delegators"], values)]
        waiting.update(child for (child,) in connection.execute(SQL["join"], values).fetchall())
    if not waiting:
        return []
    more = [{"seq": seq, "count": count} for seq, count in waiting.items()]
    connection.executemany(SQL["count_up"], more)
    return dependencies.tell(connection, spawned, now)


def delegate(
    connection: sqlite3.Connection, seq: int, batch: Sequence[Sealed], to: str, now: float
) -> list[Readied]:
    """Store jobs, and let a job, which is WAITING already, wait for one of them. What need not
    wait."""
    enqueue(connection, batch, now)
    dependencies.let_go(connection, [seq])
    connection.execute(SQL["delegate"], (seq,))
    connection.execute(SQL["insert_delegate"], {"seq": seq, "to": to})
    connection.execute("INSERT INTO edges (parent, child, met) VALUES (?, ?, 0)", (to, seq))
    return dependencies.tell(connection, [to], now)
