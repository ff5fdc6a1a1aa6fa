"""Tasks in green threads of gevent. Not in this version: they run in real threads."""

from __future__ import annotations

from collections.abc import Callable
from threading import Timer
from typing import Any

from . import thread
from .base import apply_target

__all__ = ("TaskPool",)


class TaskPool(thread.TaskPool):
    """Runs on the engine's threads; a program's own calls are done in threads beside them."""

    name = "gevent"
    instead = "green threads are not available yet"
    is_green = True

    def on_apply(
        self,
        target: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        callback: Callable[[Any], Any] | None = None,
        accept_callback: Callable[[int, float], Any] | None = None,
        timeout: float | None = None,
        timeout_callback: Callable[[bool, float], Any] | None = None,
        apply_target: Callable[..., Any] = apply_target,
        **_: Any,
    ) -> Any:
        """Do a call in one of the threads, by ``apply_target``. After ``timeout`` seconds
        ``timeout_callback(False, timeout)`` is called, and the call goes on: no thread can be
        ended. Raises ``RuntimeError`` once it is stopped."""
        if self._stopped:
            raise RuntimeError("the pool is stopped: it takes no more calls")
        future = self.executor.submit(
            apply_target, target, args or (), kwargs, callback, accept_callback
        )
        if timeout and timeout_callback is not None:
            timer = Timer(timeout, timeout_callback, (False, timeout))
            timer.daemon = True
            timer.start()
            future.add_done_callback(lambda done: timer.cancel())
        return thread.ApplyResult(future)
