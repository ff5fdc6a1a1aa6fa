"""What exchanges say: settlements, reservations, and the deliveries that come of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, repeat
from typing import Any

import msgspec

from taskmq.codec import Payload
from taskmq.records import Failure, Loss
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    Delegate,
    Delivery,
    Expire,
    Nack,
    Release,
    Reservation,
    RetryLater,
    Revoke,
    Settlement,
)

from .wire import Arguments, entry_of, packed, payload_of, raw_bytes, replacement_of

__all__ = ["LONE", "Answer", "deliveries_of", "is_lone", "reservation_of", "settlement_of"]

MAX_DETAIL = 500
LONE = b"lone"
"""Said of an exchange that lua/lone.lua may be enough for."""
FEW = 20
"""Queues that it looks at."""

_encode_json = msgspec.json.Encoder().encode
_decode_failure = msgspec.json.Decoder(Failure).decode
_decode_loss = msgspec.msgpack.Decoder(list[str]).decode


def settlement_of(settlement: Settlement) -> tuple[Any, ...]:
    """Kind, job, token, and what else there is to say."""
    job_id, token = settlement.delivery.job_id, settlement.delivery.token
    match settlement:
        case Ack(result=result, spawn=spawn):
            data = None if result is None else packed(result)
            if not spawn:
                return ("ack", job_id, token, data)
            return ("ack", job_id, token, data, [entry_of(each) for each in spawn])
        case Delegate(jobs=jobs, to=to):
            return ("delegate", job_id, token, to, [entry_of(each) for each in jobs])
        case RetryLater(delay=delay, failure=failure, envelope=sealed):
            return (
                *("retry", job_id, token, _words(failure)[:MAX_DETAIL], _failure(failure), delay),
                *replacement_of(sealed),
            )
        case Nack(delay=delay, detail=detail):
            return ("nack", job_id, token, delay, detail[:MAX_DETAIL])
        case DeadLetter(reason=reason, failure=failure):
            detail = f"{reason}: {_words(failure)}"[:MAX_DETAIL]
            return ("dead", job_id, token, reason, detail, _failure(failure))
        case Defer(delay=delay, park=park, park_ttl=park_ttl):
            return ("defer", job_id, token, delay, park or None, park_ttl)
        case Release():
            return ("release", job_id, token)
        case Expire():
            return ("expire", job_id, token)
        case Revoke():
            return ("revoke", job_id, token)


def _words(failure: Failure) -> str:
    return f"{failure.type}: {failure.message}"


def _failure(failure: Failure) -> msgspec.Raw:
    return raw_bytes(_encode_json(failure))


def is_lone(settlements: Sequence[Settlement], wanted: Reservation | None) -> bool:
    """Whether an exchange is that of a worker with one job at most, and looks for the next."""
    if wanted is None or wanted.jobs is not None or wanted.quotas or wanted.limit < 1:
        return False
    return len(settlements) <= 1 and 0 < len(wanted.queues) <= FEW


def reservation_of(wanted: Reservation) -> Arguments:
    """A reservation; the queues in the order that the caller gives, each with its place by name,
    which decides equal turns."""
    places = {name: place for place, name in enumerate(sorted(wanted.queues))}
    queues: list[Arguments] = []
    for name, weight in wanted.queues.items():
        queue: Arguments = {"name": name, "weight": weight, "place": places[name]}
        if name in wanted.quotas:
            queue["quota"] = wanted.quotas[name]
        queues.append(queue)
    reservation: Arguments = {
        "queues": queues,
        "worker": wanted.worker,
        "lease": wanted.lease,
        "limit": wanted.limit,
    }
    if wanted.jobs is not None:
        reservation["jobs"] = list(wanted.jobs)
    return reservation


class Handed(msgspec.Struct, array_like=True, gc=False):
    """A delivery, but for what all of an exchange have in common; the first of a plain job, unless
    more is said."""

    job_id: str
    queue: str
    priority: int
    token: int = 1
    attempt: int = 1
    deliveries: int = 1
    reclaims: int = 0
    yields: int = 0
    joins: bool = False
    parked_at: float | None = None


class Answer(msgspec.Struct, gc=False):
    """The answer of an exchange."""

    settled: list[int] = []
    deliveries: list[Handed | str] = []
    """Of plain jobs the ids alone."""
    lines: list[tuple[str, int, int]] = []
    """Queue and priority of those, and how many follow each other."""
    dropped: list[tuple[str, str, str, str]] = []
    readied: list[tuple[str, str, int, float]] = []
    due: float | None = None
    waiting: int | None = None
    lease_until: float = 0.0
    error: str = ""
    """Nothing was done, since jobs that were to be stored are refused; see enqueue.py."""


def deliveries_of(
    answer: Answer, envelopes: Sequence[bytes | None], handed: Sequence[Any]
) -> list[Delivery]:
    """The deliveries of an exchange. ``handed`` has what dependencies gave in threes: the position
    of the delivery, the dependency, ``=`` and its result or ``!`` and how it was lost."""
    inputs: dict[int, dict[str, Payload]] = {}
    losses: dict[int, dict[str, Loss]] = {}
    for start in range(0, len(handed), 3):
        position, job_id, data = handed[start : start + 3]
        if data.startswith(b"="):
            inputs.setdefault(position, {})[job_id.decode()] = payload_of(data[1:])
        else:
            losses.setdefault(position, {})[job_id.decode()] = _loss(data[1:])
    return [
        Delivery(
            job_id=each.job_id,
            queue=each.queue,
            priority=each.priority,
            envelope=envelope or b"",
            token=each.token,
            attempt=each.attempt,
            deliveries=each.deliveries,
            reclaims=each.reclaims,
            yields=each.yields,
            lease_until=answer.lease_until,
            parked_at=each.parked_at,
            inputs=inputs.get(position, {}) if each.joins else None,
            losses=losses.get(position),
        )
        for position, (each, envelope) in enumerate(zip(_whole(answer), envelopes, strict=True), 1)
    ]


def _whole(answer: Answer) -> list[Handed]:
    """Of plain jobs the ids alone were said, and once what they have in common."""
    places = chain.from_iterable(
        repeat((queue, priority), count) for queue, priority, count in answer.lines
    )
    return [
        Handed(each, *next(places)) if isinstance(each, str) else each for each in answer.deliveries
    ]


def _loss(data: bytes) -> Loss:
    state, reason, *failure = _decode_loss(data)
    return Loss(
        state=state, reason=reason, failure=_decode_failure(failure[0]) if failure else None
    )
