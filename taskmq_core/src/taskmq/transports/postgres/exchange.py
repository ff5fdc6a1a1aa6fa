"""Settling and reserving: what goes to the database in one call, and what its answer means."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import msgspec
import psycopg

from taskmq.codec import Payload
from taskmq.envelope import Sealed
from taskmq.errors import TransportError
from taskmq.records import Dropped, Failure, Loss, Readied
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    Delegate,
    Delivery,
    Exchange,
    Expire,
    Nack,
    Release,
    Reservation,
    RetryLater,
    Revoke,
    Settled,
    Settlement,
)

from .database import Database, Rows
from .enqueue import REFUSALS, refusal
from .wire import batch_of, encode, numbers, replacement, texts

__all__ = ["Exchanger"]

CALL = (
    "SELECT * FROM taskmq.exchange(%s::float8, %s::bool, "
    "%s::text[], %s::bigint[], %s::text[], %s::int[], %s::bytea, %s::json, %s::bytea, "
    "%s::text[], %s::float8[], %s::int[], %s::text, %s::float8, %s::int, %s::text[], %s::json)"
)
RESERVE = (
    "SELECT * FROM taskmq.reserve(%s::float8, %s::bool, %s::text, %s::text, %s::float8, %s::int)"
)
OUTCOMES = (Settled.DONE, Settled.REPEATED, Settled.LEASE_LOST)
MAX_DETAIL = 500
NOTHING = (None, None, None, None, None)

_decode = msgspec.json.Decoder().decode
_decode_loss = msgspec.json.Decoder(Loss).decode


class Exchanger:
    """Exchanges of one process. It remembers whose turn it is between queues."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._served: dict[str, float] = {}
        self._present = 0.0

    def exchange(
        self,
        settlements: Sequence[Settlement],
        reservation: Reservation | None,
        now: float | None,
    ) -> Exchange:
        """See `taskmq.transport.Reserver.exchange`."""
        if reservation is not None and not settlements and _is_for_any_of_one_queue(reservation):
            return self._reserve(reservation, now)
        acks, others = _apart(settlements)
        values = (
            *(_acks(acks) if acks else NOTHING),
            *(_others(others) if others else (None, None)),
            *self._reservation(reservation),
        )
        added = [one for each in others for one in _jobs_of(each)]
        try:
            rows = self._database.call_beside(
                CALL, lambda again: (now, again or bool(added), *values)
            )
        except TransportError as error:
            raise _explained(error, added) from error.__cause__
        answer = _decode(rows.pop()[11])
        if answer.get("turns"):
            with self._lock:
                self._served.update(answer["turns"]["served"])
                self._present = answer["turns"]["present"]
        return Exchange(
            settled=_settled(settlements, acks, answer),
            deliveries=_deliveries(rows, _instant(answer.get("lease_until")) or 0.0),
            dropped=[Dropped(*each) for each in answer.get("dropped") or ()],
            readied=[_readied(*each) for each in answer.get("readied") or ()],
            next_due_at=_instant(answer.get("next_due_at")),
            waiting_priority=answer.get("waiting_priority"),
        )

    def _reserve(self, wanted: Reservation, now: float | None) -> Exchange:
        (queue,) = wanted.queues
        values = (queue, wanted.worker, wanted.lease, wanted.limit)
        rows = self._database.call_beside(RESERVE, lambda again: (now, again, *values))
        answer = _decode(rows.pop()[11])
        return Exchange(
            deliveries=_deliveries(rows, _instant(answer.get("lease_until")) or 0.0),
            dropped=[Dropped(*each) for each in answer.get("dropped") or ()],
            next_due_at=_instant(answer.get("next_due_at")),
            waiting_priority=answer.get("waiting_priority"),
        )

    def _reservation(self, wanted: Reservation | None) -> tuple[object, ...]:
        if wanted is None:
            return (None,) * 8
        queues, turns, quotas = list(wanted.queues), None, None
        if wanted.quotas:
            quotas = numbers([wanted.quotas.get(queue) for queue in queues])
        if len(queues) > 1:
            with self._lock:
                served = [self._served.get(queue) for queue in queues]
                turns = encode({"present": self._present, "served": served}).decode()
        return (
            texts(queues),
            numbers(wanted.queues.values()),
            quotas,
            wanted.worker,
            wanted.lease,
            wanted.limit,
            None if wanted.jobs is None else texts(wanted.jobs),
            turns,
        )


def _is_for_any_of_one_queue(wanted: Reservation) -> bool:
    return len(wanted.queues) == 1 and wanted.jobs is None and not wanted.quotas


def _instant(at: float | None) -> float | None:
    return None if at is None else float(at)  # JSON may say 1700000000 for 1700000000.0


def _readied(job_id: str, queue: str, priority: int, visible_at: float) -> Readied:
    return Readied(job_id, queue, priority, float(visible_at))


def _apart(settlements: Sequence[Settlement]) -> tuple[list[Ack], list[Settlement]]:
    """Successes, which are settled all at once, and all else (such that add jobs, too). Where two
    are about the same job, or one fails that may revoke the others of its workflow, their order
    decides: then everything is settled one by one."""
    acks = [each for each in settlements if isinstance(each, Ack) and not each.spawn]
    if len({each.delivery.job_id for each in settlements}) < len(settlements):
        return [], list(settlements)
    if len(acks) == len(settlements):
        return acks, []
    if any(map(_fails_fast, settlements)):
        return [], list(settlements)
    return acks, [each for each in settlements if not isinstance(each, Ack) or each.spawn]


def _fails_fast(settlement: Settlement) -> bool:
    return (
        isinstance(settlement, (DeadLetter, Expire))
        and b'"fail_fast":true' in settlement.delivery.envelope
    )


def _jobs_of(settlement: Settlement) -> Sequence[Sealed]:
    """What is to be stored with it."""
    match settlement:
        case Ack(spawn=jobs) | Delegate(jobs=jobs):
            return jobs
    return ()


def _explained(error: TransportError, added: Sequence[Sealed]) -> TransportError:
    """The same, or why one of the jobs that settlements add was refused."""
    cause = error.__cause__
    if not isinstance(cause, psycopg.Error) or cause.sqlstate not in REFUSALS:
        return error
    return refusal(added, cause.sqlstate, _decode(cause.diag.message_detail or "null"))


def _acks(acks: Sequence[Ack]) -> tuple[object, ...]:
    ordered = sorted(acks, key=_token)  # rows are locked in the order of the store
    results = [ack.result for ack in ordered]
    data = [b"" if result is None else result.data for result in results]
    return (
        texts([ack.delivery.job_id for ack in ordered]),
        numbers([ack.delivery.token for ack in ordered]),
        texts([None if result is None else result.codec for result in results]),
        numbers(accumulate([len(each) for each in data])),
        b"".join(data),
    )


def _token(ack: Ack) -> int:
    return ack.delivery.token


def _others(settlements: Sequence[Settlement]) -> tuple[object, ...]:
    documents: list[dict[str, Any]] = []
    blobs: list[bytes] = []
    start = 0
    for each in settlements:
        document, blob = _document(each)
        document["id"], document["token"] = each.delivery.job_id, each.delivery.token
        document["start"], document["length"] = start, len(blob)
        if jobs := _jobs_of(each):
            document["batch"], data = batch_of(jobs)
            blob += data
        documents.append(document)
        blobs.append(blob)
        start += len(blob)
    return encode(documents).decode(), b"".join(blobs)


def _document(settlement: Settlement) -> tuple[dict[str, Any], bytes]:
    """A settlement as ``settle_others`` reads it, and the bytes that belong to it."""
    match settlement:
        case Ack(_, result):
            if result is None:
                return {"kind": "ack"}, b""
            return {"kind": "ack", "codec": result.codec}, result.data
        case RetryLater(_, delay, failure, envelope):
            document = {"kind": "retry", "delay": delay, **_failure(failure)}
            if envelope is None:
                return document, b""
            return {**document, "envelope": replacement(envelope)}, envelope.data
        case Nack(_, delay, detail):
            return {"kind": "nack", "delay": delay, "detail": _text(detail)}, b""
        case DeadLetter(_, reason, failure):
            return {"kind": "dead", "reason": reason, **_failure(failure, f"{reason}: ")}, b""
        case Defer(_, delay, park, park_ttl):
            document = {"kind": "defer", "delay": delay}
            if park:
                document |= {"park": park, "park_ttl": park_ttl or 0.0}
            return document, b""
        case Release():
            return {"kind": "release"}, b""
        case Expire():
            return {"kind": "expire"}, b""
        case Delegate(to=to):
            return {"kind": "delegate", "to": to}, b""
        case Revoke():
            return {"kind": "revoke"}, b""


def _failure(failure: Failure, before: str = "") -> dict[str, str]:
    return {
        "failure": encode(failure).decode(),
        "detail": _text(f"{before}{failure.type}: {failure.message}"),
    }


def _text(detail: str) -> str:
    """Encoded here: PostgreSQL's texts hold no NUL, its JSON may."""
    return encode(detail[:MAX_DETAIL]).decode()


def _settled(
    settlements: Sequence[Settlement], acks: Sequence[Ack], answer: dict[str, Any]
) -> list[Settled]:
    if not settlements:
        return []
    others = [OUTCOMES[number] for number in answer["settled"] or ()]
    if answer["acked"] is None:
        if not others:
            return [Settled.DONE] * len(settlements)
        of_acks = {ack.delivery.job_id: Settled.DONE for ack in acks}
    else:
        ordered = sorted(acks, key=_token)
        outcomes = zip(ordered, answer["acked"], strict=True)
        of_acks = {ack.delivery.job_id: OUTCOMES[number] for ack, number in outcomes}
    rest = iter(others)
    if not acks:
        return others
    return [of_acks.get(each.delivery.job_id) or next(rest) for each in settlements]


def _deliveries(rows: Rows, lease_until: float) -> list[Delivery]:
    inputs: dict[str, dict[str, Payload]] = {}
    losses: dict[str, dict[str, Loss]] = {}
    if rows and rows[-1][0] != "job":
        for row in rows:
            if row[0] == "input":
                inputs[row[1]] = _handed(_decode(row[11]), row[10])
            elif row[0] == "loss":
                losses.setdefault(row[1], {})[row[2]] = _decode_loss(row[11])
    return [
        Delivery(
            job_id=row[1],
            queue=row[2],
            priority=row[3],
            envelope=row[10],
            token=row[4],
            attempt=row[5],
            deliveries=row[6],
            reclaims=row[7],
            yields=row[8],
            lease_until=lease_until,
            parked_at=row[9],
            inputs=inputs.get(row[1]) if inputs else None,
            losses=losses.get(row[1]) if losses else None,
        )
        for row in rows
        if row[0] == "job"
    ]


def _handed(columns: list[list[Any]], data: bytes | None) -> dict[str, Payload]:
    """What a job was handed, by the job that did: some had nothing to hand over. The columns are
    jobs, codecs and lengths."""
    handed: dict[str, Payload] = {}
    start = 0
    for parent, codec, length in zip(*columns, strict=True):
        if length is not None and data is not None:
            handed[parent] = Payload(codec, data[start : start + length])
            start += length
    return handed
