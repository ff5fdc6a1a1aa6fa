"""Calls of the tasks that every app has: they make a list of what others give, and a node of each
item of a list that is known only when it is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from taskmq.builtin import COLLECT, MAP
from taskmq.call import Call, Options
from taskmq.tasks import Task

from .node import Node

__all__ = ["collect_call", "map_call"]


def map_call(task: Task[..., Any], over: Node, options: Mapping[str, Any]) -> Call[Any]:
    """Runs a task for each item of what a node gives. Raises `ConfigError`."""
    Options.of(options)
    queue = options.get("queue") or task.policy.queue
    mapper = task.app.tasks[MAP]
    return _in_queue(mapper.call(over, task=task.name, options=dict(options)), queue)


def collect_call(nodes: Sequence[Node]) -> Call[Any]:
    """Gives the list of what nodes give."""
    first = nodes[0].call
    collector = first.task.app.tasks[COLLECT]
    return _in_queue(collector.call(list(nodes)), first.with_.queue or first.task.policy.queue)


def _in_queue(call: Call[Any], queue: str | None) -> Call[Any]:
    return call if queue is None else call.options(queue=queue)
