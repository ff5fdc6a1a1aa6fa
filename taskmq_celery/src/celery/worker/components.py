"""Steps that others come behind, with ``requires = {"celery.worker.components:Hub"}``.

The engine does what they stand for. `Timer` makes sure that there is ``worker.timer``.
"""

from __future__ import annotations

from typing import Any

from celery import bootsteps

__all__ = ("Beat", "Consumer", "Hub", "Pool", "StateDB", "Timer")


class Timer(bootsteps.Step):
    """``worker.timer`` calls functions later, or again and again, in a thread of its own."""

    def create(self, parent: Any) -> Any:
        return parent.timer


class Hub(bootsteps.StartStopStep):
    """Stands for the event loop; there is none."""

    requires = (Timer,)


class Pool(bootsteps.StartStopStep):
    """Stands for the pool."""

    requires = (Hub,)


class Beat(bootsteps.StartStopStep):
    """Stands for the scheduler in a worker; there is none."""

    label = "Beat"
    conditional = True
    enabled = False


class StateDB(bootsteps.Step):
    """Stands for the file of revoked tasks; they are kept in the store."""


class Consumer(bootsteps.StartStopStep):
    """Stands for the receiving side, which comes last."""

    last = True
