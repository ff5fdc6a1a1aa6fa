"""The jobs of a workflow go into the store, all or none.

While the store cannot be reached this is tried again, as ``task_publish_retry_policy`` says. Jobs
have ids, so that one whose answer got lost is not stored twice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kombu.utils.functional import retry_over_time
from kombu.utils.uuid import uuid

import taskmq
from taskmq.errors import IdempotencyConflict, TransportUnavailable
from taskmq.states import TERMINAL

from .engine import engine_for, job_named, translated
from .graph import Graph, ttl_of
from .message import KEY, Message, call_of, with_id

__all__ = ["Policy", "submit"]

T = TypeVar("T")

Policy = Callable[[], Mapping[str, Any] | None]
"""Gives ``max_retries`` (``None``: no end) and ``interval_start``, ``interval_step``,
``interval_max`` (seconds), or ``None``: it is tried once."""
PACE = ("max_retries", "interval_start", "interval_step", "interval_max")


def once() -> None:
    """The policy of those who try no more than once."""


def submit(app: Any, graph: Graph, *, unfinished: bool = False, policy: Policy = once) -> None:
    """Store the jobs of a workflow that are not stored yet, all or none, in one round trip.

    Raises `kombu.exceptions.EncodeError`, `kombu.exceptions.OperationalError`,
    `taskmq.MessageTooLarge`; nothing was stored then, unless the answer of the store got lost.
    """
    if graph.is_stored:
        return
    with translated():
        engine = engine_for(app)
        if len(graph.nodes) == 1 and not unfinished:
            _submit_one(app, engine, graph.nodes[0].message, policy)
            return
        calls = graph.calls(app, engine, unfinished=unfinished)
        if calls:
            try:
                engine.submit_many(calls)
            except TransportUnavailable as error:
                _again(lambda: engine.submit_many(calls), error, policy)


def _submit_one(app: Any, engine: taskmq.App, message: Message, policy: Policy) -> None:
    job = job_named(app, engine, message.task)
    call = call_of(job, message, result_ttl=ttl_of(engine, message))
    try:
        created = engine.submit(call).created
    except TransportUnavailable as error:
        # Whether it is new says nothing then: the first time may have stored it.
        _again(lambda: engine.submit(call), error, policy)
    except IdempotencyConflict:  # somebody else has stored it, whatever the arguments were
        if not message.properties.get(KEY):
            raise
    else:
        if not created and not message.properties.get(KEY):
            _submit_anew(engine, job, message)


def _submit_anew(engine: taskmq.App, job: taskmq.Task[..., Any], message: Message) -> None:
    """A caller uses an id of its own once more. Celery runs the task again, and so do we: in
    place of a job that is finished, and beside one that is not."""
    store = engine.transport
    (record,) = store.get([message.id])
    if record is None or record.state in TERMINAL:
        if not store.forget([message.id]):
            store.bury([message.id])
    else:
        message = with_id(message, uuid())
    engine.submit(call_of(job, message, result_ttl=ttl_of(engine, message)))


def _again(store: Callable[[], T], error: TransportUnavailable, policy: Policy) -> T:
    """After a first ``error``. Raises the last one."""
    said = policy()
    if said is None:
        raise error
    failed: list[TransportUnavailable] = [error]

    def attempt() -> T:
        if failed:
            raise failed.pop()
        return store()

    pace = {name: said[name] for name in PACE if name in said}
    stored: T = retry_over_time(attempt, TransportUnavailable, **pace)
    return stored
