"""The step for the taking in of tasks."""

from __future__ import annotations

from typing import Any

from celery import bootsteps

from .mingle import Mingle

__all__ = ("Tasks",)


class Tasks(bootsteps.StartStopStep):
    """What is done with messages of tasks that a program takes from the broker by itself
    (`Consumer.create_task_handler`); the engine takes the worker's own."""

    requires = (Mingle,)

    def __init__(self, c: Any, **kwargs: Any) -> None:
        super().__init__(c, **kwargs)
        c.strategies = c.Strategies()

    def start(self, c: Any) -> None:
        """Every task says how its messages are taken."""
        c.update_strategies()

    def stop(self, c: Any) -> None:
        """No message of a task is taken any more."""
        c.strategies.clear()

    shutdown = stop

    def info(self, c: Any) -> dict[str, Any]:
        """How many tasks the worker holds at most, running ones included."""
        return {"prefetch_count": c.max_prefetch_count}
