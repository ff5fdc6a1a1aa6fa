"""What goes to the scripts and comes back: MessagePack, in which bytes stay bytes.

Redis' own MessagePack has no binary type, only strings of bytes: so bytes are sent as those, and
what comes back as bytes is beside the MessagePack, not in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from taskmq.codec import Payload
from taskmq.envelope import DAY, Envelope, Sealed, fingerprint
from taskmq.limits import Limit
from taskmq.records import Failure, Held, HistoryEntry, JobRecord, WorkerRecord
from taskmq.states import JobState
from taskmq.transports._fair import UNIT

__all__ = [
    "Arguments",
    "decode_stored",
    "encode",
    "encode_record",
    "entry_of",
    "fields_of",
    "packed",
    "payload_of",
    "raw_bytes",
    "record_told",
    "records_of",
    "replacement_of",
    "run_of",
]


Arguments = dict[str, Any]

encode = msgspec.msgpack.Encoder().encode
_encode_json = msgspec.json.Encoder().encode
_decode_failure = msgspec.json.Decoder(Failure).decode


def raw_bytes(data: bytes) -> msgspec.Raw:
    """Bytes as a string of MessagePack."""
    size = len(data)
    if size < 1 << 16:
        return msgspec.Raw(b"\xda" + size.to_bytes(2, "big") + data)
    return msgspec.Raw(b"\xdb" + size.to_bytes(4, "big") + data)


# -- jobs, as they are stored --------------------------------------------------------------------


class Fields(msgspec.Struct, omit_defaults=True, gc=False):
    """What an envelope says of its job. A field that has its default is left out."""

    id: str
    queue: str
    task: str
    priority: int = 0
    eta: float | None = None
    expires_at: float | None = None
    on_receipt: bool = False
    max_deliveries: int = 5
    drops_result: bool = False
    result_ttl: float = DAY
    key: str | None = None
    workflow: str | None = None
    limits: tuple[Limit, ...] | None = None
    run_if: str | None = None
    fail_fast: bool = False


class Stored(Fields, omit_defaults=True, gc=False, kw_only=True):
    """The whole job, as readers need it."""

    id: str = ""
    seq: int = 0
    state: str = "QUEUED"
    enqueued_at: float = 0.0
    visible_at: float = 0.0
    attempt: int = 1
    deliveries: int = 0
    reclaims: int = 0
    token: int = 0
    started_at: float | None = None
    finished_at: float | None = None
    lease_until: float | None = None
    worker: str | None = None
    dead_reason: str | None = None
    parked_reason: str | None = None
    parked_at: float | None = None
    cancel_requested: bool = False
    terminate_requested: bool = False
    revoked_by: str | None = None
    revoked_at: float | None = None
    pending: int = 0
    delegated_to: str | None = None
    held: bool = False
    gate: str | None = None


decode_stored = msgspec.msgpack.Decoder(Stored).decode
_decode_history = msgspec.msgpack.Decoder(tuple[HistoryEntry, ...]).decode


def fields_of(envelope: Envelope) -> Fields:
    """What an envelope says of its job."""
    return Fields(
        envelope.id,
        envelope.queue,
        envelope.task,
        envelope.priority,
        envelope.eta,
        envelope.expires_at,
        envelope.ack == "on_receipt",
        envelope.max_deliveries,
        not envelope.store_result,
        envelope.result_ttl,
        envelope.key,
        envelope.workflow,
        envelope.limits or None,
        None if envelope.run_if == "succeeded" else envelope.run_if,
        envelope.fail_fast,
    )


def entry_of(sealed: Sealed) -> Arguments:
    """A new job."""
    envelope = sealed.envelope
    entry: Arguments = {"job": fields_of(envelope), "data": raw_bytes(sealed.data)}
    if envelope.after:
        entry["after"] = list(dict.fromkeys(dependency.job for dependency in envelope.after))
    if envelope.key is not None:
        entry["key_print"] = raw_bytes(fingerprint(envelope))
        entry["key_ttl"] = envelope.key_ttl
    if envelope.fair is not None:
        entry["fair"] = (envelope.fair.key, max(1, round(UNIT / envelope.fair.weight)))
    if sealed.capacity is not None:
        entry["capacity"] = (sealed.capacity.limit, sealed.capacity.overflow == "drop_oldest")
    return entry


def replacement_of(sealed: Sealed | None) -> tuple[Any, ...]:
    """What replaces an envelope: what it says, and its bytes."""
    return () if sealed is None else (fields_of(sealed.envelope), raw_bytes(sealed.data))


# -- what is read --------------------------------------------------------------------------------


def packed(payload: Payload) -> msgspec.Raw:
    """A result, as it is stored."""
    return raw_bytes(payload.codec.encode() + b"\0" + payload.data)


def payload_of(data: bytes) -> Payload:
    """A result that was stored."""
    codec, _, value = data.partition(b"\0")
    return Payload(codec.decode(), value)


def records_of(columns: Sequence[Any]) -> list[JobRecord | None]:
    """The records in the answer of a script."""
    ids, jobs, envelopes, results, failures, histories, held = columns
    running: Mapping[int, int] = dict(zip(held[::2], held[1::2], strict=True))
    return [
        None
        if job is None
        else _record(id.decode(), job, envelope, result, failure, history, running.get(place, 0))
        for place, (id, job, envelope, result, failure, history) in enumerate(
            zip(ids, jobs, envelopes, results, failures, histories, strict=True), 1
        )
    ]


def _record(
    job_id: str,
    data: bytes,
    envelope: bytes | None,
    result: bytes | None,
    failure: bytes | None,
    history: bytes | None,
    running: int,
) -> JobRecord:
    job = decode_stored(data)
    return JobRecord(
        id=job_id,
        task=job.task,
        queue=job.queue,
        state=JobState(job.state),
        priority=job.priority,
        attempt=job.attempt,
        deliveries=job.deliveries,
        reclaims=job.reclaims,
        max_deliveries=job.max_deliveries,
        enqueued_at=job.enqueued_at,
        visible_at=job.visible_at,
        envelope=envelope or b"",
        expires_at=job.expires_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        lease_until=job.lease_until,
        worker=job.worker,
        result=None if result is None else payload_of(result),
        failure=None if failure is None else _decode_failure(failure),
        dead_reason=job.dead_reason,
        parked_reason=job.parked_reason,
        parked_at=job.parked_at,
        cancel_requested=job.cancel_requested,
        revoked_by=job.revoked_by,
        revoked_at=job.revoked_at,
        pending=job.pending,
        workflow=job.workflow,
        delegated_to=job.delegated_to,
        held=_held(job, running),
        history=() if history is None else _decode_history(history),
    )


def _held(job: Stored, running: int) -> Held | None:
    if not job.held:
        return None
    # No limit of its own: the pause of its workflow holds it.
    own = (each for each in job.limits or () if each.gate == job.gate)
    return next((Held(limit=limit, running=running) for limit in own), None)


def record_told(job_id: str, word: bytes) -> JobRecord | None:
    """The record of a job that has succeeded, as lua/lone.lua tells it; ``None``: it was told that
    it has ended, and no more."""
    if not word:
        return None
    end = 4 + int.from_bytes(word[:4], "big")
    record = _record(job_id, word[4:end], None, word[end:] or None, None, None, 0)
    return record if record.state is JobState.SUCCEEDED else None


# -- workers -------------------------------------------------------------------------------------


def run_of(worker: WorkerRecord) -> str:
    """What tells one run of a worker from every other; without a newline."""
    return _encode_json((worker.id, worker.started_at, worker.pid, worker.process)).decode()


def encode_record(worker: WorkerRecord) -> str:
    """A worker's entry."""
    return _encode_json(worker).decode()
