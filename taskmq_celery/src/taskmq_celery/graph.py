"""A task with its links and the rest of its chain, as one workflow of the engine.

Every signature becomes a job of the same batch. A job waits for the one before it
(`taskmq.Dependency`), which hands its result over as first argument, unless the signature is
immutable. The engine starts it in the step that settles the one before; if that one fails, it is
skipped, with everything behind it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from kombu.utils.uuid import uuid

import taskmq
from taskmq import Dependency
from taskmq.states import TERMINAL

from .engine import engine_for, job_named, translated
from .message import Message, call_of, with_id

__all__ = ["Node", "nodes_of", "submit"]

Signature = Any
"""A dict with the keys task, args, kwargs, options, immutable."""


class Node(NamedTuple):
    """One job of the workflow. ``parent`` is the id of the job that it waits for."""

    message: Message
    parent: str | None = None
    immutable: bool = False


def nodes_of(
    head: Message,
    links: Iterable[Signature],
    chain: Iterable[Signature],
    build: Callable[[Signature, Message], Message],
) -> list[Node]:
    """The jobs behind ``head``: its links, and its chain in order of running.

    ``build(signature, parent)`` makes the message of a signature; signatures may have links of
    their own.
    """
    return [Node(head), *_behind(head, links, build), *_chained(head, chain, build)]


def submit(app: Any, nodes: list[Node]) -> None:
    """Store the jobs of a workflow, all or none, in one round trip.

    Raises `kombu.exceptions.EncodeError`, `kombu.exceptions.OperationalError`,
    `taskmq.MessageTooLarge`; nothing was stored then.
    """
    with translated():
        engine = engine_for(app)
        if len(nodes) == 1:
            message = nodes[0].message
            job = job_named(app, engine, message.task)
            call = call_of(job, message, result_ttl=_ttl(engine, message))
            if not engine.submit(call).created:
                _submit_again(engine, job, message)
        else:
            engine.submit_many(_calls(app, engine, nodes))


def _submit_again(engine: taskmq.App, job: taskmq.Task[..., Any], message: Message) -> None:
    """A caller uses an id of its own once more. Celery runs the task again, and so do we: in
    place of a job that is finished, and beside one that is not."""
    store = engine.transport
    (record,) = store.get([message.id])
    if record is None or record.state in TERMINAL:
        if not store.forget([message.id]):
            store.bury([message.id])
    else:
        message = with_id(message, uuid())
    engine.submit(call_of(job, message, result_ttl=_ttl(engine, message)))


def _calls(app: Any, engine: taskmq.App, nodes: list[Node]) -> list[taskmq.Call[Any]]:
    root = nodes[0].message.id
    feeding = {node.parent for node in nodes if not node.immutable}
    awaited = {node.parent for node in nodes}
    return [
        call_of(
            job_named(app, engine, node.message.task),
            node.message,
            after=_after(node),
            feeds=node.message.id in feeding,
            workflow=root,
            # A delay of the next one counts from its end, which has to be known then.
            result_ttl=None if node.message.id in awaited else _ttl(engine, node.message),
        )
        for node in nodes
    ]


def _ttl(engine: taskmq.App, message: Message) -> float | None:
    """Nobody can ask for a result that is not stored: forget the job once it has succeeded."""
    stored = engine.config.store_results if message.store_result is None else message.store_result
    return None if stored else 0.0


def _after(node: Node) -> tuple[Dependency, ...]:
    if node.parent is None:
        return ()
    return (Dependency(node.parent, into=None if node.immutable else 0),)


def _behind(
    parent: Message, links: Iterable[Signature], build: Callable[[Signature, Message], Message]
) -> Iterator[Node]:
    for signature in links:
        if signature.get("subtask_type") == "chain":
            yield from _chained(parent, _steps(signature), build)
        else:
            yield from _chained(parent, [signature], build)


def _chained(
    parent: Message, chain: Iterable[Signature], build: Callable[[Signature, Message], Message]
) -> Iterator[Node]:
    for signature in chain:
        message = build(signature, parent)
        yield Node(message, parent.id, bool(signature.get("immutable")))
        yield from _behind(message, _listed(signature["options"].get("link")), build)
        parent = message


def _steps(chain: Signature) -> list[Signature]:
    """The tasks of a chain; what is linked to the chain is linked to the last."""
    steps = [dict(each) for each in chain["kwargs"]["tasks"]]
    links = _listed(chain["options"].get("link"))
    if links and steps:
        options = dict(steps[-1]["options"])
        options["link"] = [*_listed(options.get("link")), *links]
        steps[-1]["options"] = options
    return steps


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]
