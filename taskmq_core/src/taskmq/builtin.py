"""Tasks that every app has, for workflows: their names begin with ``taskmq.``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from .call import Call, Replacement
from .context import current_task
from .envelope import Dependency
from .ids import new_id, offspring_id
from .policy import TaskPolicy
from .tasks import FunctionTask

if TYPE_CHECKING:
    from .app import App

__all__ = ["COLLECT", "MAP", "builtin_tasks"]

MAP = "taskmq.map"
COLLECT = "taskmq.collect"
MAX_DELIVERIES = 20
"""They run no code of the user's: what ends their worker is mostly a job beside them."""


def builtin_tasks(app: App) -> list[FunctionTask[..., Any]]:
    """Those of one app."""
    policy = TaskPolicy(max_deliveries=MAX_DELIVERIES)
    tasks: list[FunctionTask[..., Any]] = [
        FunctionTask(map_items, name=MAP, policy=policy),
        FunctionTask(collect, name=COLLECT, policy=policy),
    ]
    for task in tasks:
        task.bind(app)
    return tasks


def collect(results: list[Any]) -> list[Any]:
    """What several jobs gave, as a result."""
    return results


def map_items(items: Sequence[Any], task: str, options: dict[str, Any]) -> Any:
    """Replaces itself by a job of a task for each item; gives the list of their results."""
    context = current_task()
    app, workflow = context.app, context.envelope.workflow or context.id
    mapped = app.tasks[task]
    if not isinstance(items, (list, tuple)):
        raise TypeError(f"cannot map {task} over {type(items).__name__}: the node gives no list")
    calls: list[Call[Any]] = []
    ids = sorted(new_id() for _ in items)
    for item, own in zip(items, ids, strict=True):
        job_id = offspring_id(context.id, own)
        call = mapped.call(item)
        call = call.options(**options) if options else call
        calls.append(replace(call, workflow=workflow, feeds=True, id=job_id))
    if not calls:
        return []
    after = tuple(Dependency(str(call.id), 0, collect=True) for call in calls)
    gather: Call[Any] = Call(app.tasks[COLLECT], after=after, workflow=workflow, feeds=True)
    last = replace(gather.options(queue=context.queue), id=offspring_id(context.id, new_id()))
    return Replacement((*calls, last), str(last.id))
