"""Tasks in child processes. Not in this version: they run in threads."""

from __future__ import annotations

from .base import BasePool

__all__ = ("TaskPool",)


class TaskPool(BasePool):
    """Runs on the engine's threads."""

    name = "prefork"
    instead = "child processes are not available yet"
    own_process = True
