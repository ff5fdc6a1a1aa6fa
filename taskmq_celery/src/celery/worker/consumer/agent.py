"""The step for an agent, which nobody has any more."""

from __future__ import annotations

from celery import bootsteps

from .connection import Connection

__all__ = ("Agent",)


class Agent(bootsteps.StartStopStep):
    """Stands for an agent, which nobody has any more: steps can come behind it."""

    requires = (Connection,)
