"""Tasks in threads of the worker's process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import Any

from .base import BasePool, apply_target

__all__ = ("TaskPool",)


class ApplyResult:
    """A call that a `TaskPool` does or will do; ``f`` is its future."""

    def __init__(self, future: Future[Any]) -> None:
        self.f = future
        self.get = self.f.result

    def wait(self, timeout: float | None = None) -> None:
        """Wait for its end, for so many seconds at most. Raises what it has raised."""
        self.f.result(timeout)


class TaskPool(BasePool):
    """Runs on the engine's pool of that name. A program's own calls are done in threads beside
    it, as many as its limit, which are there once they are needed."""

    name = "thread"
    body_can_be_buffer = True
    signal_safe = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """As `BasePool`: ``limit`` is how many threads there are."""
        super().__init__(*args, **kwargs)
        self._stopped = False

    @cached_property
    def executor(self) -> ThreadPoolExecutor:
        """The threads for a program's own calls."""
        return ThreadPoolExecutor(max_workers=self.limit)

    def on_stop(self) -> None:
        """Finish the calls that run; what waits is not done."""
        self._stopped = True
        if "executor" in vars(self):
            self.executor.shutdown(wait=True, cancel_futures=True)

    def on_apply(
        self,
        target: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
        callback: Callable[[Any], Any] | None = None,
        accept_callback: Callable[[int, float], Any] | None = None,
        **_: Any,
    ) -> ApplyResult:
        """Do a call in one of the threads. Raises ``RuntimeError`` once it is stopped."""
        if self._stopped:
            raise RuntimeError("the pool is stopped: it takes no more calls")
        return ApplyResult(
            self.executor.submit(
                apply_target, target, args or (), kwargs, callback, accept_callback
            )
        )
