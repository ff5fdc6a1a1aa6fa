"""Tasks in child processes, the default."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from queue import SimpleQueue
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


def end_child(exitcode: int) -> None:
    """Do what is done in a child after its last task: `process_destructor`, and what libraries do
    by replacing ``workloop`` and ``_do_exit`` of ``billiard.pool.Worker``, to send what they have
    collected."""
    billiard = sys.modules.get("billiard.pool")
    if billiard is None:  # nobody can have replaced anything
        process_destructor(os.getpid(), exitcode)
        return
    last = _ended(billiard.Worker)
    last.workloop(pid=os.getpid())
    with contextlib.suppress(_EndedError):
        last._do_exit(os.getpid(), exitcode)


class _EndedError(Exception):
    """The process does not exit here: the engine ends it."""


def _ended(worker: Any) -> Any:
    """A worker of billiard's that has no more tasks: its loop is over at once."""

    class Ended(worker):  # type: ignore[misc]  # a class without types
        maxtasks = 0
        max_memory_per_child = on_ready_counter = None
        inqW_fd = synqW_fd = wait_for_job = wait_for_syn = None  # noqa: N815  # billiard's

        def __init__(self) -> None:
            self.outq: SimpleQueue[Any] = SimpleQueue()

        def on_exit(self, pid: int, exitcode: int) -> None:
            # By name: libraries replace it in this module.
            process_destructor(pid, exitcode)
            raise _EndedError

    return Ended()
