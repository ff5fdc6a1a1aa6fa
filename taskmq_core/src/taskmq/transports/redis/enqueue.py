"""The answer of an enqueue, which may be a refusal."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from taskmq.envelope import Sealed
from taskmq.errors import IdempotencyConflict, QueueFull, TransportError, UnknownDependency
from taskmq.transport import Enqueued

__all__ = ["answers_of"]


class _Refusal(msgspec.Struct):
    """Why nothing was stored, or the jobs that were there already, by position."""

    others: list[tuple[int, str]] = []
    error: str = ""
    key: str = ""
    job: str = ""
    task: str = ""
    after: str = ""
    queue: str = ""
    depth: int = 0
    count: int = 0
    capacity: int = 0


_decode = msgspec.msgpack.Decoder(_Refusal).decode


def answers_of(sealed: Sequence[Sealed], data: bytes) -> list[Enqueued]:
    """What `taskmq.transport.Producer.enqueue` returns, or raises."""
    answers = [Enqueued(each.envelope.id, True) for each in sealed]
    if data:
        answer = _decode(data)
        if answer.error:
            raise _error(answer)
        for position, job_id in answer.others:
            answers[position - 1] = Enqueued(job_id, False)
    return answers


def _error(refusal: _Refusal) -> TransportError:
    if refusal.error == "conflict":
        return IdempotencyConflict(
            f"key {refusal.key!r} stands for job {refusal.job} with another task or other "
            f"arguments than this call of {refusal.task}; nothing was stored",
            key=refusal.key,
            job_id=refusal.job,
        )
    if refusal.error == "unknown":
        return UnknownDependency(
            f"job {refusal.job} ({refusal.task}) waits for job {refusal.after}, which is neither "
            "in its batch nor in the store; nothing was stored"
        )
    more = "one more" if refusal.count == 1 else f"{refusal.count:,} more"
    return QueueFull(
        f"queue {refusal.queue!r} holds {refusal.depth:,} jobs that wait, of "
        f"{refusal.capacity:,} that may: there is no room for {more}; nothing was stored",
        queue=refusal.queue,
        depth=refusal.depth,
        capacity=refusal.capacity,
    )
