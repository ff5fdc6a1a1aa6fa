"""Tasks in child processes, the default."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from signal import SIGTERM
from typing import Any

from celery import platforms, signals
from celery.platforms import EX_OK

from .base import BasePool
from .calls import CallProcesses
from .thread import ApplyResult

__all__ = ("TaskPool", "process_destructor", "process_initializer")

_process_hostname: str | None = None
"""In a child: the name of its worker, the sender of the signals of its life."""


class TaskPool(BasePool):
    """Runs on the engine's processes pool: children are forked, and can be killed and replaced.

    A program's own calls are done in processes beside it, as many as its limit, which are there
    once they are needed. Those calls have no limits of time.
    """

    name = "prefork"
    engine_pool = "processes"
    _calls: CallProcesses | None = None
    _stopped = False

    def on_apply(self, *args: Any, **kwargs: Any) -> ApplyResult:
        """Do a call, given as to `BasePool.apply_async`, in one of the processes. Raises
        ``RuntimeError`` once it is stopped."""
        return self._call(*args, **kwargs)

    def _call(
        self,
        target: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        callback: Callable[[Any], Any] | None = None,
        accept_callback: Callable[[int, float], Any] | None = None,
        error_callback: Callable[[Any], Any] | None = None,
        **_: Any,
    ) -> ApplyResult:
        if self._stopped:
            raise RuntimeError("the pool is stopped: it takes no more calls")
        return ApplyResult(
            self._prepared().submit(
                target, args or (), kwargs, callback, accept_callback, error_callback
            )
        )

    def _get_info(self) -> dict[str, Any]:
        return {
            **super()._get_info(),
            "max-tasks-per-child": self.options.get("maxtasksperchild") or "N/A",
            "put-guarded-by-semaphore": self.putlocks,
            "timeouts": [self.options.get("soft_timeout") or 0, self.options.get("timeout") or 0],
        }

    def prepare_calls(self) -> None:
        """Fork what will make the processes."""
        self._prepared()

    def _prepared(self) -> CallProcesses:
        if self._calls is None:
            app, hostname = self.options.get("initargs") or (self.app, "")
            self._calls = CallProcesses(
                self.limit or 1,
                begin=partial(process_initializer, app, hostname),
                end=partial(end_child, EX_OK),
            )
        return self._calls

    def terminate_job(self, pid: int, signal: Any = None) -> None:
        """Send a signal (SIGTERM) to the process of a call."""
        if self._calls is not None:
            self._calls.terminate_job(pid, signal or SIGTERM)

    def on_stop(self) -> None:
        """Finish the calls."""
        self._stopped = True
        if self._calls is not None:
            self._calls.stop()

    def on_terminate(self) -> None:
        """End the calls."""
        self._stopped = True
        if self._calls is not None:
            self._calls.terminate()


def process_initializer(app: Any, hostname: str) -> None:
    """In a child, before its first task."""
    process = multiprocessing.current_process()
    process.name = f"ForkPoolWorker-{os.getpid()}"
    platforms.set_mp_process_title("celeryd", hostname=hostname)
    global _process_hostname
    _process_hostname = hostname
    app.set_current()
    app.loader.init_worker_process()
    signals.worker_process_init.send(sender=hostname)


def process_destructor(pid: int, exitcode: int) -> None:
    """In a child, after its last."""
    signals.worker_process_shutdown.send(sender=_process_hostname, pid=pid, exitcode=exitcode)


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
