"""The step for listening to other workers."""

from __future__ import annotations

from celery import bootsteps

from .mingle import Mingle

__all__ = ("Gossip",)


class Gossip(bootsteps.StartStopStep):
    """Stands for listening to other workers: steps can come behind it."""

    requires = (Mingle,)
