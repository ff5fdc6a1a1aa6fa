"""The step for the taking in of tasks."""

from __future__ import annotations

from celery import bootsteps

from .mingle import Mingle

__all__ = ("Tasks",)


class Tasks(bootsteps.StartStopStep):
    """Stands for the taking in of tasks: steps can come behind it."""

    requires = (Mingle,)
