"""The step for the events that the worker sends."""

from __future__ import annotations

from typing import Any

from celery import bootsteps

from .connection import Connection

__all__ = ("Events",)


class Events(bootsteps.StartStopStep):
    """``consumer.event_dispatcher``, which tells those who listen of the worker, and of its tasks.
    Child processes tell of their tasks too: it sends from before they are there until after."""

    requires = (Connection,)

    def __init__(
        self,
        c: Any,
        task_events: bool | None = True,
        without_heartbeat: bool = False,
        without_gossip: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(c, **kwargs)
        c.event_dispatcher = c.controller.events.dispatcher

    def shutdown(self, c: Any) -> None:
        """Send the last events, and no more."""
        c.controller.events.stop()
