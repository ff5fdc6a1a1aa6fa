"""The step for the connection to the broker."""

from __future__ import annotations

from celery import bootsteps

__all__ = ("Connection",)


class Connection(bootsteps.StartStopStep):
    """Stands for the connection to the broker: steps can come behind it."""
