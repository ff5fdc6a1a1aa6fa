"""How jobs wait for each other, once they are stored. A constant number of statements for each
generation of a batch: what ends, what that ends, and so on."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from taskmq.codec import Payload
from taskmq.records import Loss, Readied
from taskmq.states import TERMINAL, JobState

from .rows import insert_many, json_of, json_of_numbers
from .statements import DEPENDENCIES as SQL
from .statements import ENQUEUE, RESERVE, SETTLE

__all__ = [
    "any_edges",
    "any_nodes",
    "count_down",
    "feed",
    "inputs_of",
    "let_go",
    "losses_of",
    "restore",
    "spread",
    "tell",
]

Results = Mapping[str, Payload | None]

_decode_loss = msgspec.json.Decoder(Loss).decode


def any_edges(connection: sqlite3.Connection) -> bool:
    """Whether any job depends on any other: mostly not, and then nothing more is asked."""
    return bool(connection.execute(SQL["any_edges"]).fetchone()[0])


def any_nodes(connection: sqlite3.Connection) -> bool:
    """Whether any job has a condition, or has delegated: likewise."""
    return bool(connection.execute(SQL["any_nodes"]).fetchone()[0])


def feed(
    connection: sqlite3.Connection, results: Results, unkept: Collection[str], now: float
) -> list[Readied]:
    """Jobs have succeeded: hand their results over (those that are ``unkept`` have to be stored for
    that), and queue what waited for nothing else, which is named."""
    readied: list[Readied] = []
    while results and any_edges(connection):
        parents = [row[0] for row in connection.execute(SQL["parents"], (json_of(results),))]
        if not parents:
            break
        if unkept:
            wanted = [id for id in parents if id in unkept]
            handed = [(id, r.codec, r.data) for id in wanted if (r := results[id]) is not None]
            connection.executemany(ENQUEUE["insert_input"], handed)
        children = count_down(connection, connection.execute(SQL["meet"], (json_of(parents),)))
        if not any_nodes(connection):
            return readied + _queue_met(connection, children, now)
        values = {"now": now, "seqs": json_of_numbers(children)}
        unneeded = connection.execute(SQL["skip_unneeded"], values).fetchall()
        results, unkept = _forward(connection, children, results, now)
        readied += _queue_met(connection, children, now)
        readied += spread(connection, [job_id for (job_id,) in unneeded], now)
    return readied


def spread(connection: sqlite3.Connection, lost: Sequence[str], now: float) -> list[Readied]:
    """Jobs are lost, or are about to be deleted: what needs them cannot run, nor what needs that;
    what runs all the same may be ready, and is named."""
    readied: list[Readied] = []
    if not lost or not any_edges(connection):
        return readied
    if not any_nodes(connection):
        connection.execute(SQL["skip"], {"now": now, "ids": json_of(lost)})
        return readied
    while lost:
        names = json_of(lost)
        connection.execute(SQL["insert_losses"], (names,))
        children = count_down(connection, connection.execute(SQL["meet_lost"], (names,)))
        readied += _queue_met(connection, children, now)
        skipped = connection.execute(SQL["skip_waiting"], {"now": now, "ids": names}).fetchall()
        lost = [job_id for (job_id,) in skipped]
    return readied


def tell(connection: sqlite3.Connection, parents: Iterable[str], now: float) -> list[Readied]:
    """Some jobs have just begun to wait for these, which may have ended before, or are not there;
    those that need not wait."""
    succeeded: dict[str, Payload | None] = {}
    lost = set(parents)
    names = json_of(sorted(lost))
    for job_id, state, codec, data, *_ in connection.execute(
        ENQUEUE["stored"], (names,)
    ).fetchall():
        if state == JobState.SUCCEEDED:
            succeeded[job_id] = None if codec is None else Payload(codec, data)
        if state == JobState.SUCCEEDED or state not in TERMINAL:
            lost.remove(job_id)
    return feed(connection, succeeded, (), now) + spread(connection, sorted(lost), now)


def let_go(connection: sqlite3.Connection, children: Sequence[int]) -> None:
    """Jobs that will not run again need no longer what they were handed."""
    if children:
        connection.execute(SQL["drop_edges"], (json_of_numbers(children),))


def restore(connection: sqlite3.Connection, replayed: Iterable[str]) -> None:
    """Jobs are out of the dead letters: who still waits takes them into account again, and what
    was skipped because of them waits again."""
    conditional = any_nodes(connection)
    restored = list(replayed)
    while restored:
        names = (json_of(restored),)
        if conditional:
            count_down(connection, connection.execute(SQL["await_again"], names), by=-1)
        found = connection.execute(SQL["restore"], names).fetchall()
        restored = [job_id for (job_id,) in found]


def count_down(
    connection: sqlite3.Connection, met: Iterable[tuple[int]], by: int = 1
) -> Counter[int]:
    """Let each child wait for less, by as much as it was told of; which they are."""
    children = Counter(child for (child,) in list(met))
    less = [(by * count, seq) for seq, count in children.items()]
    connection.executemany(SQL["count_down"], less)
    return children


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


def losses_of(
    connection: sqlite3.Connection, children: Sequence[int]
) -> dict[int, dict[str, Loss]]:
    """How those ended that these jobs waited for and that are lost, by job id."""
    losses: dict[int, dict[str, Loss]] = {}
    if children and any_nodes(connection):
        rows = connection.execute(RESERVE["losses"], (json_of_numbers(children),))
        for child, parent, data in rows.fetchall():
            losses.setdefault(child, {})[parent] = _decode_loss(data)
    return losses


def _queue_met(
    connection: sqlite3.Connection, children: Iterable[int], now: float
) -> list[Readied]:
    values = {"now": now, "seqs": json_of_numbers(children)}
    return [Readied(*row) for row in connection.execute(SQL["queue_met"], values).fetchall()]


def _forward(
    connection: sqlite3.Connection, children: Iterable[int], results: Results, now: float
) -> tuple[Results, set[str]]:
    """Of these jobs, those that have delegated succeed with what they were handed; that, and which
    of them do not keep it."""
    found = connection.execute(SQL["delegates"], (json_of_numbers(children),)).fetchall()
    if not found:
        return {}, set()
    seqs = [seq for seq, *_ in found]
    connection.execute(SQL["forward"], {"now": now, "seqs": json_of_numbers(seqs)})
    connection.execute(SETTLE["drop_envelopes"], (json_of_numbers(seqs),))
    kept = [
        (seq, result.codec, result.data)
        for seq, _, keep_result, _, to in found
        if keep_result and (result := results[to]) is not None
    ]
    insert_many(connection, SETTLE["insert_results"], kept)
    let_go(connection, seqs)
    forgotten = [seq for seq, _, _, result_ttl, _ in found if result_ttl <= 0]
    if forgotten:
        connection.execute(SETTLE["delete"], (json_of_numbers(forgotten),))
    forwarded = {job_id: results[to] for _, job_id, _, _, to in found}
    return forwarded, {job_id for _, job_id, keep, ttl, _ in found if not keep or ttl <= 0}
