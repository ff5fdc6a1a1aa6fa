"""Tasks in green threads of eventlet. Not in this version: they run in real threads."""

from __future__ import annotations

from .base import BasePool

__all__ = ("TaskPool",)


class TaskPool(BasePool):
    """Runs on the engine's threads."""

    name = "eventlet"
    instead = "green threads are not available yet"
    is_green = True
