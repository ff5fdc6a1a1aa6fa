"""What a program needs of its store, held against what the store says that it can do.

A need that is not met is told where it shows first: when a worker starts, or when a job is
submitted. Without that, a limit would silently not hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from .config import QueueConfig
from .envelope import Sealed
from .errors import ConfigError
from .transport import Capabilities

if TYPE_CHECKING:
    from .tasks import Task

__all__ = ["refuse_growth", "refuse_jobs", "refuse_pause", "refuse_program", "refuse_required"]

ADVICE = {
    "durable": "it forgets its jobs with its process",
    "shared": "only one process can use it",
    "global_priority": "it keeps priorities within a queue, not across queues",
    "fifo": "it keeps no order",
    "weighted_turns": "it gives queues no turns by weight",
    "dependencies": "jobs cannot wait for others there",
    "workflows": "workflows have no conditions and cannot grow there",
    "workflow_pauses": "a workflow cannot be paused there",
    "wakeups": "it is polled",
    "limits": "it keeps no rate or concurrency limits",
    "capacity": "it keeps queues to no capacity",
    "fair_turns": "the keys of a queue take no turns there",
    "transactional": "it has no transactions that a job could be a part of",
}
"""What the lack of a capability means, in words."""

Need = tuple[str, str]
"""Who needs something, and which capability that is."""


def refuse_required(required: Iterable[str], store: str, has: Capabilities) -> None:
    """Raises `ConfigError` for the first capability of ``Config.require`` that the store lacks."""
    _refuse(((f"require names {name!r}", name) for name in required), store, has)


def refuse_program(
    tasks: Iterable[Task[..., object]],
    queues: Mapping[str, QueueConfig],
    store: str,
    has: Capabilities,
) -> None:
    """Raises `ConfigError` for the first task or queue that needs what the store lacks."""
    _refuse(_of_tasks(tasks), store, has)
    _refuse(_of_queues(queues), store, has)


def refuse_jobs(batch: Sequence[Sealed], store: str, has: Capabilities) -> None:
    """Raises `ConfigError` for the first job that needs what the store lacks."""
    if has.limits and has.capacity and has.fair_turns and has.dependencies and has.workflows:
        return
    _refuse(_of_jobs(batch), store, has)


def refuse_growth(store: str, has: Capabilities) -> None:
    """Raises `ConfigError` where a job cannot add others to its workflow."""
    _refuse([("a task replaces or extends itself", "workflows")], store, has)


def refuse_pause(store: str, has: Capabilities) -> None:
    """Raises `ConfigError` where a workflow cannot be paused."""
    _refuse([("a workflow is to be paused", "workflow_pauses")], store, has)


def _of_tasks(tasks: Iterable[Task[..., object]]) -> Iterator[Need]:
    for task in tasks:
        rules = task.flow
        if rules is None:
            continue
        if rules.rate is not None:
            yield f"task {task.name!r} has a rate_limit", "limits"
        if rules.concurrency is not None:
            yield f"task {task.name!r} has a concurrency limit", "limits"
        if rules.fair_key is not None:
            yield f"task {task.name!r} has a fair_key", "fair_turns"


def _of_queues(queues: Mapping[str, QueueConfig]) -> Iterator[Need]:
    for name, declared in queues.items():
        if declared.rate_limit is not None and declared.rate_scope == "fleet":
            yield f"queue {name!r} has a rate_limit", "limits"
        if declared.capacity is not None:
            yield f"queue {name!r} has a capacity", "capacity"
        if declared.fair_weights:
            yield f"queue {name!r} has fair_weights", "fair_turns"
        if declared.weight != 1:
            yield f"queue {name!r} has a weight", "weighted_turns"


def _of_jobs(batch: Sequence[Sealed]) -> Iterator[Need]:
    for one in batch:
        job = f"a job of {one.envelope.task!r}"
        if one.envelope.limits:
            yield f"{job} has a {one.envelope.limits[0].kind} limit", "limits"
        if one.envelope.fair is not None:
            yield f"{job} has a fair_key", "fair_turns"
        if one.envelope.after:
            yield f"{job} waits for other jobs", "dependencies"
        if one.envelope.run_if != "succeeded" or one.envelope.fail_fast:
            yield f"{job} has run_if or fail_fast", "workflows"
        if one.capacity is not None:
            yield f"queue {one.envelope.queue!r} has a capacity", "capacity"


def _refuse(needs: Iterable[Need], store: str, has: Capabilities) -> None:
    for who, capability in needs:
        if not getattr(has, capability):
            raise ConfigError(
                f"{who}, which the store {store} cannot do ({ADVICE[capability]}): "
                "take it off or use another store, e.g. sqlite:///jobs.db"
            )
