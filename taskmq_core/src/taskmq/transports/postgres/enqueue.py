"""Storing a batch of jobs: all of them, or none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from taskmq.envelope import Sealed
from taskmq.errors import IdempotencyConflict, QueueFull, TransportError, UnknownDependency
from taskmq.transport import Enqueued
from taskmq.transports._alike import all_plain

from .database import Database, Rows
from .wire import Batch, is_plain, links_of

__all__ = ["REFUSALS", "enqueue", "refusal"]

REFUSALS = ("TQ001", "TQ002", "TQ003")
"""Of `sql/functions/enqueue.sql`: the key is in use, a dependency is unknown, the queue is full."""

PLAIN = "SELECT taskmq.enqueue(%s::float8, %s::text[], %s::int[], %s::json, %s::int[], %s::bytea)"
LINKED = (
    "SELECT taskmq.enqueue_linked(%s::float8, %s::text[], %s::int[], %s::json, %s::int[], "
    "%s::bytea, %s::json, %s::int[], %s::text[], %s::bool)"
)
ONE = (
    "SELECT taskmq.enqueue_one(%s::float8, %s::text, %s::text, %s::smallint, %s::text, %s::float8, "
    "%s::float8, %s::float8, %s::bool, %s::bool, %s::int, %s::text, %s::bytea)"
)
TURNS_NEEDED = "linked"

_decode = msgspec.json.Decoder().decode

Execute = Callable[[str, Sequence[object]], Rows]


def enqueue(
    database: Database, sealed: Sequence[Sealed], now: float | None, execute: Execute | None = None
) -> list[Enqueued]:
    """See `taskmq.transport.Producer.enqueue`. ``execute`` runs a statement on a connection of
    the caller, within whose transaction all of it happens then."""
    run = database.call if execute is None else execute
    plain = all_plain(sealed, is_plain)
    if plain and len(sealed) == 1:
        created = run(ONE, _one(sealed[0], now))[0][0]
        if created is not None:
            return [Enqueued(sealed[0].envelope.id, created)]
    batch = Batch(sealed)
    if plain:
        answer = run(PLAIN, (now, *batch.values))[0][0]
        if answer != TURNS_NEEDED:
            return _plain(sealed, None if answer is None else _decode(answer))
    values = (now, *batch.values, *links_of(sealed))
    if execute is None:
        alone = _needs_the_store(sealed)
        rows = database.call_beside(LINKED, lambda again: (*values, alone or again))
    else:
        rows = execute(LINKED, (*values, None))
    if rows[0][0] is None:
        return _plain(sealed, None)
    answer = _decode(rows[0][0])
    if isinstance(answer, dict):
        raise refusal(sealed, answer["refused"], answer["why"])
    return [Enqueued(job_id, created) for job_id, created in answer]


def _one(sealed: Sealed, now: float | None) -> tuple[object, ...]:
    envelope = sealed.envelope
    return (
        now,
        envelope.id,
        envelope.queue,
        str(envelope.priority),  # a number's type would depend on its size
        envelope.task,
        envelope.eta,
        envelope.expires_at,
        envelope.result_ttl,
        envelope.store_result,
        envelope.ack == "on_receipt",
        str(envelope.max_deliveries),
        envelope.workflow,
        sealed.data,
    )


def _needs_the_store(sealed: Sequence[Sealed]) -> bool:
    """Whether nobody else may be at work: limits, turns and capacities are counted."""
    return any(
        one.envelope.limits or one.envelope.fair is not None or one.capacity is not None
        for one in sealed
    )


def _plain(sealed: Sequence[Sealed], created: list[str] | None) -> list[Enqueued]:
    if created is None:
        return [Enqueued(one.envelope.id, True) for one in sealed]
    left = set(created)
    answers = []
    for one in sealed:
        answers.append(Enqueued(one.envelope.id, one.envelope.id in left))
        left.discard(one.envelope.id)
    return answers


def refusal(sealed: Sequence[Sealed], code: str, why: list[Any]) -> TransportError:
    """Why none of these jobs was stored: the code and the detail are the database's."""
    if code == "TQ003":
        queue, depth, count, capacity = why
        more = "one more" if count == 1 else f"{count:,} more"
        return QueueFull(
            f"queue {queue!r} holds {depth:,} jobs that wait, of {capacity:,} that may: there is "
            f"no room for {more}; nothing was stored",
            queue=queue,
            depth=depth,
            capacity=capacity,
        )
    job_id, other = why
    envelope = next(one.envelope for one in sealed if one.envelope.id == job_id)
    if code == "TQ002":
        return UnknownDependency(
            f"job {envelope.id} ({envelope.task}) waits for job {other}, which is neither in the "
            "same batch nor in the store; nothing was stored"
        )
    return IdempotencyConflict(
        f"key {envelope.key!r} is in use by job {other}, which has another task or other arguments "
        f"than this call of {envelope.task}; nothing was stored",
        key=envelope.key or "",
        job_id=other,
    )
