"""The step for remote control."""

from __future__ import annotations

from celery import bootsteps

from .tasks import Tasks

__all__ = ("Control",)


class Control(bootsteps.StartStopStep):
    """Stands for remote control: steps can come behind it."""

    requires = (Tasks,)
