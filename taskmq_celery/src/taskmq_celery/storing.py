"""The jobs of a workflow go into the store, all or none.

While the store cannot be reached this is tried again, as ``task_publish_retry_policy`` says. Jobs
have ids, so that one whose answer got lost is not stored twice.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from kombu.utils.functional import retry_over_time
from kombu.utils.uuid import uuid

import taskmq
from taskmq.errors import IdempotencyConflict, TransportUnavailable
from taskmq.states import TERMINAL

from .engine import engine_for, job_named, translated
from .graph import Graph, ttl_of
from .message import Message, call_of, renamed

__all__ = ["Policy", "like", "model_for", "submit", "submit_call"]

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
            submit_call(engine, call_for(app, engine, graph.nodes[0].message), policy)
            return
        calls = graph.calls(app, engine, unfinished=unfinished)
        if calls:
            try:
                engine.submit_many(calls)
            except TransportUnavailable as error:
                _again(lambda: engine.submit_many(calls), error, policy)


def call_for(app: Any, engine: taskmq.App, message: Message) -> taskmq.Call[Any]:
    """The job for a message that nothing else belongs to."""
    job = job_named(app, engine, message.task)
    return call_of(job, message, result_ttl=ttl_of(engine, message))


def model_for(app: Any, engine: taskmq.App, message: Message) -> taskmq.Call[Any]:
    """The job for messages like this one, for `like`: without id and arguments."""
    call = call_for(app, engine, message)
    options = dataclasses.replace(call.with_, id=None)
    return engine.prepared(taskmq.Call(call.task, with_=options))


def like(
    model: taskmq.Call[Any], job_id: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> taskmq.Call[Any]:
    """One of the jobs that ``model`` stands for."""
    return msgspec.structs.replace(model, id=job_id, args=tuple(args), kwargs=kwargs)


def submit_call(engine: taskmq.App, call: taskmq.Call[Any], policy: Policy = once) -> None:
    """Store one job that waits for no other, in one round trip. Raises as `submit` does."""
    with translated():
        try:
            created = engine.submit(call).created
        except TransportUnavailable as error:
            # Whether it is new says nothing then: the first time may have stored it.
            _again(lambda: engine.submit(call), error, policy)
        except IdempotencyConflict:  # somebody else has stored it, whatever the arguments were
            if not call.with_.key:
                raise
        else:
            if not created and not call.with_.key:
                _submit_anew(engine, call)


def _submit_anew(engine: taskmq.App, call: taskmq.Call[Any]) -> None:
    """A caller uses an id of its own once more. Celery runs the task again, and so do we: in
    place of a job that is finished, and beside one that is not."""
    store, given = engine.transport, str(call.id or call.with_.id)
    (record,) = store.get([given])
    if record is None or record.state in TERMINAL:
        if not store.forget([given]):
            store.bury([given])
    else:
        call = renamed(call, uuid())
    engine.submit(call)


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
