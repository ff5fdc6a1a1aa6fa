"""From the jobs of a graph to calls of the engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import taskmq
from taskmq import Dependency
from taskmq.builtin import COLLECT
from taskmq.call import Options
from taskmq_celery.codec import codec_name
from taskmq_celery.engine import ERRBACKS_TASK, job_named
from taskmq_celery.message import CHILDREN, JOINS, SPREAD, Message, call_of

__all__ = ["Node", "calls_of", "ttl_of"]

UNREACHED = 3600.0
"""Seconds for which a job without a result is kept that had to wait for others."""


class Node(NamedTuple):
    """One job of the workflow. ``message`` is the task; of a gathering or an errbacks job, the
    task that it is there for."""

    id: str
    message: Message
    after: tuple[Dependency, ...] = ()
    kind: str = "task"
    before: tuple[str, ...] = ()
    told: Mapping[str, list[int]] = {}
    """Of an errbacks job: which of them chords in the group have, by the jobs of their bodies."""
    about: str = ""
    """Of an errbacks job: the id that callbacks get, that of the last task of the chain behind the
    group, whose result programs hold."""


def calls_of(
    app: Any,
    engine: taskmq.App,
    nodes: Sequence[Node],
    *,
    workflow: str,
    children: Mapping[str, list[Any]],
    awaited: Iterable[str] | None = (),
) -> list[taskmq.Call[Any]]:
    """The jobs, as the engine is told of them.

    ``children``: what each of them starts, by its id. ``awaited``: which of them somebody else
    waits for, beside the nodes themselves; ``None`` if that may be any.
    """
    feeding = {one.job for node in nodes for one in node.after if one.into is not None}
    waited = {one.job for node in nodes for one in node.after}
    if awaited is None:
        feeding = waited = {node.id for node in nodes}
    else:
        feeding.update(awaited)
        waited.update(awaited)
    calls = []
    for node in nodes:
        feeds = node.id in feeding
        if node.kind != "task":
            calls.append(_other(app, engine, node, workflow, feeds=feeds))
            continue
        message = node.message
        if node.id in children:
            message = message.with_header(CHILDREN, children[node.id])
        calls.append(
            call_of(
                job_named(app, engine, message.task),
                message,
                after=node.after,
                feeds=feeds,
                workflow=workflow,
                # What comes next counts its delay from the end of this one, and tells why it
                # did not run: both have to be known then.
                result_ttl=None if node.id in waited else ttl_of(engine, message, node),
            )
        )
    return calls


def _other(
    app: Any, engine: taskmq.App, node: Node, workflow: str, *, feeds: bool
) -> taskmq.Call[Any]:
    message = node.message
    options = Options(
        id=node.id,
        queue=message.queue,
        priority=message.priority,
        codec=codec_name(message.serializer),
        headers={JOINS: SPREAD} if node.kind == "gather" else None,
    )
    if node.kind == "gather":
        job = job_named(app, engine, COLLECT)
        collects = any(one.into is not None for one in node.after)
        arguments: tuple[Any, ...] = () if collects else ([],)  # of a group without tasks
        return taskmq.Call(job, arguments, {}, options, node.after, feeds=feeds, workflow=workflow)
    job = job_named(app, engine, ERRBACKS_TASK)
    return taskmq.Call(
        job,
        (
            *(
                {**message.as_request(), "id": node.about},
                list(node.before),
                message.headers[JOINS],
            ),
            *([dict(node.told)] if node.told else ()),
        ),
        {},
        replace(options, store_result=False, result_ttl=0.0),
        node.after,
        run_if="failed",
        workflow=workflow,
    )


def ttl_of(engine: taskmq.App, message: Message, node: Node | None = None) -> float | None:
    """Nobody can ask for a result that is not stored: forget the job once it has succeeded. That
    one did not run, because of those before it, is to be known."""
    stored = engine.config.store_results if message.store_result is None else message.store_result
    if stored:
        return None
    return min(UNREACHED, engine.config.result_ttl) if node is not None and node.after else 0.0
