"""The step for the heartbeats."""

from __future__ import annotations

from celery import bootsteps

from .events import Events

__all__ = ("Heart",)


class Heart(bootsteps.StartStopStep):
    """Stands for the heartbeats: steps can come behind it."""

    requires = (Events,)
