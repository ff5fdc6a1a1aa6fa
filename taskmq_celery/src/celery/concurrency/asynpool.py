"""Where programs set how long a child of the prefork pool may take to begin."""

from __future__ import annotations

__all__ = ("PROC_ALIVE_TIMEOUT",)

PROC_ALIVE_TIMEOUT = 4.0
"""Seconds. Nothing reads it: the engine's children are forked, and get a task when they say that
they are there, however long that takes. Celery's own pool, which is in the module of this name, is
not here."""
