"""The step for the queues that hold tasks back."""

from __future__ import annotations

from celery import bootsteps

from .tasks import Tasks

__all__ = ("DelayedDelivery",)


class DelayedDelivery(bootsteps.StartStopStep):
    """Stands for the queues that hold tasks back: steps can come behind it."""

    requires = (Tasks,)
