"""The step for the heartbeats."""

from __future__ import annotations

from typing import Any

from celery import bootsteps

from .events import Events

__all__ = ("Heart",)


class Heart(bootsteps.StartStopStep):
    """``consumer.heart``: says that the worker is there, again and again, and at the end that it is
    gone; not with ``--without-heartbeat``, nor where nobody can be told."""

    requires = (Events,)

    def __init__(
        self,
        c: Any,
        without_heartbeat: bool = False,
        heartbeat_interval: float | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(c, **kwargs)
        self.enabled = not without_heartbeat and c.controller.events.dispatcher is not None
        self.heartbeat_interval = heartbeat_interval
        c.heart = None

    def start(self, c: Any) -> None:
        c.heart = c.controller.events.heart(self.heartbeat_interval)
        c.heart.start()

    def stop(self, c: Any) -> None:
        heart, c.heart = c.heart, None
        if heart is not None:
            heart.stop()

    def terminate(self, c: Any) -> None:
        self.stop(c)

    shutdown = stop
