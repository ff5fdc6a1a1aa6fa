"""Tasks in green threads of gevent. Not in this version: they run in real threads."""

from __future__ import annotations

from . import thread

__all__ = ("TaskPool",)


class TaskPool(thread.TaskPool):
    """Runs on the engine's threads; a program's own calls are done in threads beside them."""

    name = "gevent"
    instead = "green threads are not available yet"
    is_green = True
