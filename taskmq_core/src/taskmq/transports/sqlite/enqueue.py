"""Storing a batch of jobs: all of them, or none."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, cast

import msgspec

from taskmq.envelope import Envelope, Sealed, fingerprint
from taskmq.errors import IdempotencyConflict
from taskmq.ids import random_bits
from taskmq.transport import Enqueued
from taskmq.transports._alike import all_plain, is_free
from taskmq.transports._capacity import make_room

from . import fair, gates, patterns
from .links import Node, Stored, insert_links, link, look_up
from .room import SqliteRoom
from .rows import (
    DELAYED,
    FINISHED,
    MOST_IN_ROW,
    READY,
    WAITING,
    in_row,
    insert_alike,
    insert_many,
    json_of,
)
from .statements import ENQUEUE as SQL

__all__ = ["enqueue", "lone_row", "row_of"]


class _Key(msgspec.Struct):
    """What an idempotency key stands for."""

    job_id: str
    fingerprint: bytes


def enqueue(connection: sqlite3.Connection, batch: Sequence[Sealed], now: float) -> list[Enqueued]:
    """See `taskmq.transport.Producer.enqueue`."""
    if not all_plain(batch, _is_plain) or fair.any_lines(connection):
        return _enqueue_linked(connection, batch, now)
    places = _insert(connection, batch, {}, now)
    return [
        Enqueued(sealed.envelope.id, place is not None)
        for sealed, place in zip(batch, places, strict=True)
    ]


def _is_plain(sealed: Sealed) -> bool:
    return is_free(sealed) and not sealed.envelope.fail_fast


def lone_row(sealed: Sealed, now: float) -> tuple[Any, ...] | None:
    """The values of statement ``insert_alone``, which may be all that there is to do for a single
    job; ``None`` if there is more."""
    envelope, data = sealed.envelope, sealed.data
    if envelope.after or not _is_plain(sealed) or len(data) > MOST_IN_ROW:
        return None
    rest = _rest_of(envelope, token=_first_token(now), now=now, node=None)
    return (None, envelope.id, data, *rest)


def _insert(
    connection: sqlite3.Connection,
    batch: Collection[Sealed],
    nodes: Mapping[str, Node],
    now: float,
) -> list[int | None]:
    """Store jobs and their envelopes; for each its place, or ``None`` if it was stored before."""
    (last,) = connection.execute(SQL["last_seq"]).fetchone()
    token = _first_token(now)
    groups = _alike(batch, nodes, token=token, now=now)
    inserted = 0
    for group in groups:
        inserted += _insert_group(connection, group, last + 1 + inserted)
    places: list[int | None] = list(range(last + 1, last + 1 + inserted))
    if inserted < len(batch):
        added = dict(connection.execute(SQL["added"], (last,)).fetchall())
        places = [added.pop(sealed.envelope.id, None) for sealed in batch]
    if any(None in group.envelopes for group in groups):
        apart = [
            (seq, sealed.data)
            for seq, sealed in zip(places, batch, strict=True)
            if seq is not None and in_row(sealed.data) is None
        ]
        insert_many(connection, SQL["insert_envelopes"], apart)
    return places


class _Group(NamedTuple):
    """Rows that follow each other and differ in nothing but id and envelope."""

    rest: tuple[Any, ...]
    first: Envelope
    ids: list[str]
    envelopes: list[bytes | None]
    """``None`` for what is stored apart."""


def _insert_group(connection: sqlite3.Connection, group: _Group, seq: int) -> int:
    """Store jobs from that place on, which is the next one; how many were new."""
    rest, first, ids, envelopes = group
    shared = None
    if len(ids) >= patterns.FEWEST and None not in envelopes:
        shared = patterns.split(first, ids, cast("list[bytes]", envelopes))
    if shared is None:
        return insert_alike(connection, SQL["insert_alike"], (ids, envelopes), (*rest, None))
    pattern, own = shared
    inserted = insert_alike(connection, SQL["insert_alike"], (ids, own), (*rest, seq))
    if inserted:
        patterns.store(connection, seq, inserted, pattern)
    return inserted


def _alike(
    batch: Iterable[Sealed], nodes: Mapping[str, Node], *, token: int, now: float
) -> list[_Group]:
    groups: list[_Group] = []
    seen: Envelope | None = None
    for sealed in batch:
        envelope, pattern = sealed.envelope, sealed.pattern
        if pattern is None or pattern is not seen or envelope.after:
            node = nodes.get(envelope.id)
            rest = _rest_of(envelope, token=token, now=now, node=node)
            if not groups or groups[-1].rest != rest:
                groups.append(_Group(rest, envelope, [], []))
                _, _, ids, envelopes = groups[-1]
            seen = pattern if node is None else None
        ids.append(envelope.id)
        data = sealed.data
        envelopes.append(data if len(data) <= MOST_IN_ROW else None)
    return groups


def _first_token(now: float) -> int:
    # A job's deliveries count up from here. The time and 16 random bits keep the tokens of a job
    # that was deleted and stored again apart from those that it had.
    return int(now * 1000) << 20 | random_bits(16) << 4


def row_of(envelope: Envelope, seq: int, *, token: int, now: float) -> tuple[Any, ...]:
    """The values of statement ``insert_jobs``, for a job whose envelope is stored apart."""
    return (seq, envelope.id, None, *_rest_of(envelope, token=token, now=now, node=None))


def _rest_of(envelope: Envelope, *, token: int, now: float, node: Node | None) -> tuple[Any, ...]:
    eta = envelope.eta
    phase, state, visible_at, due_at, finished_at = READY, "QUEUED", now, None, None
    if eta is not None and eta > now:
        phase, visible_at, due_at = DELAYED, eta, eta
    dependencies = pending = 0
    if node is not None:
        dependencies, pending = len(node.met), node.pending
        if node.skipped:
            phase, state, finished_at = FINISHED, "SKIPPED", now
            due_at = now + envelope.result_ttl
        elif pending:
            phase, state, due_at = WAITING, "WAITING", None
    return (
        phase,
        state,
        envelope.queue,
        envelope.priority,
        token,
        dependencies,
        pending,
        visible_at,
        due_at,
        envelope.expires_at,
        envelope.result_ttl,
        envelope.store_result,
        envelope.ack == "on_receipt",
        envelope.max_deliveries,
        envelope.task,
        now,
        finished_at,
        envelope.key,
        envelope.workflow,
    )


# -- keys and dependencies -----------------------------------------------------------------------


def _enqueue_linked(
    connection: sqlite3.Connection, batch: Sequence[Sealed], now: float
) -> list[Enqueued]:
    """A batch with keys or dependencies: look at what is there, and insert what is acceptable."""
    names = {sealed.envelope.id for sealed in batch}
    names |= {each.job for sealed in batch for each in sealed.envelope.after}
    stored = look_up(connection, names)
    keys = _keys(connection, batch, now)
    new: dict[str, Sealed] = {}
    answers = [_accept(sealed, stored, keys, new) for sealed in batch]
    nodes = link(_envelopes(new), stored)
    if make_room(SqliteRoom(connection, now), new.values()):
        stored = look_up(connection, names)
        nodes = link(_envelopes(new), stored)  # again: it may wait for one that was dropped
    places = _insert(connection, new.values(), nodes, now)
    placed = list(_placed(places, new))
    in_turns = fair.any_lines(connection) or any(envelope.fair for _, envelope in placed)
    if in_turns:
        fair.enter(connection, placed)
    if any(envelope.limits for _, envelope in placed):
        gates.place(connection, placed, now, in_turns=in_turns)
    connection.executemany(
        SQL["insert_key"],
        [(e.key, e.id, fingerprint(e), now + e.key_ttl) for e in _envelopes(new) if e.key],
    )
    insert_links(connection, placed, nodes, stored)
    return answers


def _keys(connection: sqlite3.Connection, batch: Sequence[Sealed], now: float) -> dict[str, _Key]:
    names = {sealed.envelope.key for sealed in batch if sealed.envelope.key is not None}
    rows = connection.execute(SQL["keys"], (json_of(names), now)).fetchall()
    return {name: _Key(job_id, print_) for name, job_id, print_ in rows}


def _accept(
    sealed: Sealed,
    stored: Mapping[str, Stored],
    keys: dict[str, _Key],
    new: dict[str, Sealed],
) -> Enqueued:
    envelope = sealed.envelope
    if envelope.id in stored or envelope.id in new:
        return Enqueued(envelope.id, False)
    if envelope.key is not None:
        key = _Key(envelope.id, fingerprint(envelope))
        held = keys.setdefault(envelope.key, key)
        if held is not key:
            _refuse_another(envelope, key, held)
            return Enqueued(held.job_id, False)
    new[envelope.id] = sealed
    return Enqueued(envelope.id, True)


def _refuse_another(envelope: Envelope, key: _Key, held: _Key) -> None:
    if key.fingerprint != held.fingerprint:
        raise IdempotencyConflict(
            f"key {envelope.key!r} is in use by job {held.job_id}, which has another task or other "
            f"arguments than this call of {envelope.task}; nothing was stored",
            key=envelope.key or "",
            job_id=held.job_id,
        )


def _placed(
    places: Sequence[int | None], new: Mapping[str, Sealed]
) -> Iterator[tuple[int, Envelope]]:
    """New jobs, with their places in the store."""
    for seq, envelope in zip(places, _envelopes(new), strict=True):
        if seq is not None:
            yield seq, envelope


def _envelopes(new: Mapping[str, Sealed]) -> Iterator[Envelope]:
    return (sealed.envelope for sealed in new.values())
