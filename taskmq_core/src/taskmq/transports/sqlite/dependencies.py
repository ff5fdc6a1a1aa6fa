"""How jobs wait for each other, once they are stored. Constant numbers of statements a batch."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from taskmq.codec import Payload

from .rows import json_of, json_of_numbers
from .statements import DEPENDENCIES as SQL
from .statements import ENQUEUE, RESERVE

__all__ = ["any_edges", "feed", "inputs_of", "let_go", "restore", "skip"]


def any_edges(connection: sqlite3.Connection) -> bool:
    """Whether any job depends on any other: mostly not, and then nothing more is asked."""
    return bool(connection.execute(SQL["any_edges"]).fetchone()[0])


def feed(connection: sqlite3.Connection, results: Mapping[str, Payload | None], now: float) -> None:
    """Jobs have succeeded: hand their results over, and queue what waited for nothing else."""
    if not any_edges(connection):
        return
    parents = [row[0] for row in connection.execute(SQL["parents"], (json_of(results),))]
    if not parents:
        return
    handed = [(id, r.codec, r.data) for id in parents if (r := results[id]) is not None]
    connection.executemany(ENQUEUE["insert_input"], handed)
    met = connection.execute(SQL["meet"], (json_of(parents),)).fetchall()
    children = Counter(child for (child,) in met)
    connection.executemany(SQL["count_down"], [(count, seq) for seq, count in children.items()])
    connection.execute(SQL["queue_met"], {"now": now, "seqs": json_of_numbers(children)})


def let_go(connection: sqlite3.Connection, children: Sequence[int]) -> None:
    """Jobs that will not run again need no longer what they were handed."""
    if children:
        connection.execute(SQL["drop_edges"], (json_of_numbers(children),))


def skip(connection: sqlite3.Connection, lost: Sequence[str], now: float) -> None:
    """Jobs are lost: nothing that waits for them can run, nor what waits for that."""
    if lost and any_edges(connection):
        connection.execute(SQL["skip"], {"now": now, "ids": json_of(lost)})


def restore(connection: sqlite3.Connection, replayed: Iterable[str]) -> None:
    """Jobs are out of the dead letters: what was skipped because of them waits again."""
    restored = list(replayed)
    while restored:
        found = connection.execute(SQL["restore"], (json_of(restored),)).fetchall()
        restored = [job_id for (job_id,) in found]


def inputs_of(
    connection: sqlite3.Connection, children: Sequence[int]
) -> dict[int, dict[str, Payload]]:
    """What each of these jobs was handed, by job id."""
    inputs: dict[int, dict[str, Payload]] = {child: {} for child in children}
    if inputs:
        rows = connection.execute(RESERVE["inputs"], (json_of_numbers(children),))
        for child, parent, codec, data in rows.fetchall():
            inputs[child][parent] = Payload(codec, data)
    return inputs
