"""The step for the events that the worker sends."""

from __future__ import annotations

from celery import bootsteps

from .connection import Connection

__all__ = ("Events",)


class Events(bootsteps.StartStopStep):
    """Stands for the events that the worker sends: steps can come behind it."""

    requires = (Connection,)
