"""How a coroutine of the asyncio pool is interrupted.

Most short jobs never wait for anything, and what never stands still cannot be interrupted by
asyncio: so a leash is tied to a task, with a timer and all, only where its coroutine first waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from taskmq.context import CoroutineContext
from taskmq.errors import JobCancelled, ReleaseJob, SoftTimeLimit
from taskmq.transport import Delivery

__all__ = ["CoroutineLeash", "soon"]


class CoroutineLeash:
    """Cancels the coroutine of one job, and knows why. See `taskmq.executor.Leash`."""

    __slots__ = (
        "_cause",
        "_context",
        "_loop",
        "_since",
        "_timer",
        "ended_by",
        "given_back",
        "task",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.task: asyncio.Task[None] | None = None
        """What is to be cancelled, from `tie` on."""
        self.given_back: list[Delivery] | None = None
        """Where to say that it was cancelled by `give_back`."""
        self.ended_by: BaseException | None = None
        """Why it ended, if it ended by a cancellation."""
        self._loop = loop
        self._context: CoroutineContext | None = None  # while the body of the task runs
        self._cause: BaseException | None = None  # of the last cancellation
        self._since = 0.0  # on the loop's clock: when the body began, if it has a limit
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, context: CoroutineContext) -> None:
        self._context = context
        if context.envelope.timeout is not None:
            self._since = self._loop.time()
        if self.task is not None:
            self._arm(self.task, context)

    def tie(self, task: asyncio.Task[None]) -> None:
        """Its coroutine stands still, in ``task``: from now on it can be interrupted."""
        self.task = task
        if self._context is not None:
            self._arm(task, self._context)

    def let_go(self) -> None:
        context, self._context = self._context, None
        if self.task is None:
            return  # never armed
        if context is not None:
            context.on_cancel = None
        if self._timer is not None:
            self._timer.cancel()

    def explain(self, error: BaseException) -> BaseException:
        if not isinstance(error, asyncio.CancelledError) or self._cause is None:
            return error
        self.ended_by = self._cause
        return self._cause.with_traceback(error.__traceback__)

    def give_back(self, given_back: list[Delivery]) -> None:
        """The worker has no more time."""
        self.given_back = given_back
        self._cancel(ReleaseJob("the worker stops"))

    def _arm(self, task: asyncio.Task[None], context: CoroutineContext) -> None:
        limit = context.envelope.timeout
        if limit is not None:
            cause = SoftTimeLimit(f"timeout of {limit:g} s is over")
            left = max(0.0, self._since + limit - self._loop.time())
            self._timer = self._loop.call_later(left, self._cancel, cause)
        told = partial(self._cancel, JobCancelled(f"job {context.id} was cancelled"))
        context.on_cancel = partial(soon, self._loop, told)
        if context.cancelled:  # since it has been there, which is not long
            told()
        elif self._cause is not None:
            task.cancel()

    def _cancel(self, cause: BaseException) -> None:
        if isinstance(self._cause, JobCancelled):
            return  # nothing outweighs that, and once is enough
        self._cause = cause
        if self._context is not None and self.task is not None:
            self.task.cancel()


def soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Do this in the thread of the loop. Nothing, if that has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)
