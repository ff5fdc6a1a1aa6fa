"""Storing jobs, by one of three scripts: most jobs need little of what there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from taskmq.envelope import Sealed
from taskmq.errors import IdempotencyConflict, QueueFull, TransportError, UnknownDependency
from taskmq.transport import Enqueued
from taskmq.transports._alike import all_plain

from .plain import is_plain, one_of, runs_of
from .server import Server
from .wire import encode, entry_of

__all__ = ["enqueue", "refusal"]

TURNS = b"turns"


def enqueue(server: Server, sealed: Sequence[Sealed], now: float | None) -> list[Enqueued]:
    """See `taskmq.transport.Producer.enqueue`."""
    if all_plain(sealed, is_plain):
        answer = _enqueue_plain(server, sealed, now)
        if answer != TURNS:
            return _answers(sealed, answer)
    entries = [entry_of(each) for each in sealed]
    return _answers(sealed, server.run("enqueue", {"now": now, "entries": entries}))


def _enqueue_plain(server: Server, sealed: Sequence[Sealed], now: float | None) -> Any:
    if len(sealed) == 1:
        return server.send("enqueue_one", *one_of(sealed[0], now))
    envelopes = [each.data for each in sealed]
    arguments = {"now": now, "runs": runs_of(sealed), "sizes": list(map(len, envelopes))}
    return server.send("enqueue_plain", encode(arguments), b"".join(envelopes))


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


def _answers(sealed: Sequence[Sealed], data: bytes) -> list[Enqueued]:
    answers = [Enqueued(each.envelope.id, True) for each in sealed]
    if data:
        answer = _decode(data)
        if answer.error:
            raise _error(answer)
        for position, job_id in answer.others:
            answers[position - 1] = Enqueued(job_id, False)
    return answers


def refusal(data: bytes) -> TransportError:
    """Why a script has refused to store jobs."""
    return _error(_decode(data))


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
