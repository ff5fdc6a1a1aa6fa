"""Tasks in child processes, the default."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

from celery import signals

from .base import BasePool

__all__ = ("TaskPool", "process_destructor", "process_initializer")


class TaskPool(BasePool):
    """Runs on the engine's processes pool: children are forked, and can be killed and replaced."""

    name = "prefork"
    engine_pool = "processes"


def process_initializer(app: Any, hostname: str) -> None:
    """In a child, before its first task."""
    process = multiprocessing.current_process()
    process.name = f"ForkPoolWorker-{os.getpid()}"
    app.loader.init_worker_process()
    signals.worker_process_init.send(sender=None)


def process_destructor(pid: int, exitcode: int) -> None:
    """In a child, after its last."""
    signals.worker_process_shutdown.send(sender=None, pid=pid, exitcode=exitcode)
