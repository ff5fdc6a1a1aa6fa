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
    """``worker.persistence``: the file (``--statedb``) with what this worker was told to be
    revoked, stamps left out. The store knows it of all tasks that are in it; the file, also of
    those that are yet to come."""

    def __init__(self, w: Any, **kwargs: Any) -> None:
        super().__init__(w, **kwargs)
        self.enabled = bool(w.state_db)

    def create(self, w: Any) -> Any:
        w.persistence = w.state.Persistent(w.state, w.state_db, w.app.clock)


class Consumer(bootsteps.StartStopStep):
    """Stands for the receiving side, which comes last."""

    last = True
