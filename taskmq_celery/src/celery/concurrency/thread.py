"""Tasks in threads of the worker's process."""

from __future__ import annotations

from .base import BasePool

__all__ = ("TaskPool",)


class TaskPool(BasePool):
    """Runs on the engine's pool of that name."""

    name = "thread"
