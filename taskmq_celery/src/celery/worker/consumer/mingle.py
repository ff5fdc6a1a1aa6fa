"""The step for the exchange with other workers at the start."""

from __future__ import annotations

from celery import bootsteps

from .events import Events

__all__ = ("Mingle",)


class Mingle(bootsteps.StartStopStep):
    """Stands for the exchange with other workers at the start: steps can come behind it."""

    requires = (Events,)
