"""One event loop, in a thread of its own: for tasks that are ``async def``, hundreds at once.

A coroutine is interrupted by cancelling it, which is how asyncio does it: ``CancelledError`` comes
out of the ``await`` that it waits at. Each reason (its ``timeout`` is over, it was revoked or its
lease is lost, the worker has no more time) cancels it once. If the cancellation comes out of the
task, the attempt ends for that reason; a task that swallows it goes on, and what it returns counts.

Tasks that are plain functions run in threads beside the loop, each in a slot like any other.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import Context
from functools import partial
from queue import SimpleQueue

from taskmq.context import CoroutineContext
from taskmq.errors import JobCancelled, ReleaseJob, SoftTimeLimit
from taskmq.executor import Attempt, Executor, Outcome
from taskmq.transport import Delivery

from .base import Done, Execute, InProcess, came_to_nothing

__all__ = ["AsyncioPool"]

logger = logging.getLogger("taskmq.pools")

LAST_WORDS = 0.3
"""Seconds that coroutines have to clean up when they are ended with the worker."""

REFERENCE = b'"codec":"offloaded"'
"""Is in every envelope whose arguments are in a payload store. One that has it elsewhere loses a
few microseconds."""

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


class AsyncioPool(InProcess):
    """``concurrency`` coroutines at once, in one thread.

    ``executor`` runs the jobs: this pool needs more of it than that it can execute one. A daemon
    thread, as in the threads pool, so that a task that blocks it cannot keep a process alive.
    """

    runs_coroutines = True
    inline = False

    def __init__(
        self,
        concurrency: int,
        executor: Executor,
        new_event_loop: LoopFactory = asyncio.new_event_loop,
    ) -> None:
        self.slots = concurrency
        self._executor = executor
        self._new_event_loop = new_event_loop
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pending: deque[Delivery] = deque()
        # The following belong to the thread of the loop.
        self._taken = 0  # slots
        self._stopping = False
        self._leashes: dict[asyncio.Task[None], CoroutineLeash] = {}
        self._threads = SideThreads()
        self._thread: threading.Thread | None = None
        self._done: Done

    def start(self, execute: Execute, done: Done) -> None:
        """``execute`` is not used: see the class."""
        self._done = done
        self._loop = loop = self._new_event_loop()
        self._thread = threading.Thread(
            target=self._live, args=(loop,), name="taskmq-asyncio", daemon=True
        )
        self._thread.start()

    def submit(self, deliveries: Sequence[Delivery]) -> None:
        self._pending.extend(deliveries)
        self._soon(self._fill)

    def unstarted(self) -> int:
        return len(self._pending)

    def withdraw(self) -> list[Delivery]:
        withdrawn: list[Delivery] = []
        while (delivery := self._next()) is not None:
            withdrawn.append(delivery)
        return withdrawn

    def turn(self) -> None:
        """Nothing: the loop has its own thread."""

    def abort(self) -> list[Delivery]:
        """Cancel every coroutine, and wait a moment for it: those that end of it. Threads, and
        coroutines that do not let themselves be cancelled, go on."""
        if self._loop is None:
            return []
        given_back: list[Delivery] = []
        ended = threading.Event()
        self._soon(partial(self._abort, self._loop, given_back, ended))
        ended.wait(LAST_WORDS + 0.1)  # not for a task that blocks the loop
        return list(given_back)  # what comes later is left to its lease

    def stop(self, timeout: float) -> bool:
        if self._loop is None or self._thread is None:
            return True
        self._soon(partial(self._stop, self._loop))
        self._thread.join(timeout)
        return not self._thread.is_alive()

    # -- the thread of the loop --------------------------------------------------------------

    def _live(self, loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        while self._taken or not self._stopping:
            try:
                loop.run_forever()
            except BaseException:  # SystemExit in something that a task has started beside itself
                logger.exception("the event loop goes on after this:")
        self._threads.stop()
        _close(loop)

    def _soon(self, call: Callable[[], None]) -> None:
        if self._loop is not None:
            _soon(self._loop, call)

    def _stop(self, loop: asyncio.AbstractEventLoop) -> None:
        self._stopping = True
        if not self._taken:
            loop.stop()

    def _next(self) -> Delivery | None:
        try:
            return self._pending.popleft()
        except IndexError:
            return None

    def _fill(self) -> None:
        while self._taken < self.slots and not self._stopping:
            delivery = self._next()
            if delivery is None:
                return
            self._taken += 1
            # In a context of its own: context variables set by a job end with it.
            Context().run(self._begin, delivery)

    def _begin(self, delivery: Delivery) -> None:
        if REFERENCE in delivery.envelope:  # its arguments have to be fetched, which may take long
            self._threads.run(partial(self._fetch, delivery))
        else:
            attempt = self._admit(delivery)
            self._go_on(attempt)
            if isinstance(attempt, Outcome):
                self._taken -= 1

    def _admit(self, delivery: Delivery) -> Attempt | Outcome:
        try:
            return self._executor.admit(delivery)
        except Exception as error:
            return came_to_nothing(delivery, error)

    def _go_on(self, attempt: Attempt | Outcome) -> None:
        if isinstance(attempt, Outcome):
            self._done(attempt)
        elif attempt.task.is_async:
            loop = asyncio.get_running_loop()
            leash = CoroutineLeash(loop)
            leash.task = task = loop.create_task(self._run(attempt, leash))
            self._leashes[task] = leash
            task.add_done_callback(self._forget)
        else:
            self._threads.run(partial(self._run_sync, attempt))

    async def _run(self, attempt: Attempt, leash: CoroutineLeash) -> None:
        try:
            outcome = await self._executor.run_async(attempt, leash)
        except BaseException as error:
            outcome = came_to_nothing(attempt.delivery, error)
        if isinstance(leash.ended_by, ReleaseJob):
            leash.given_back.append(attempt.delivery)  # which says all
        else:
            self._done(outcome)

    def _forget(self, task: asyncio.Task[None]) -> None:
        del self._leashes[task]
        self._free()

    def _free(self) -> None:
        self._taken -= 1
        if self._pending:
            self._fill()
        if self._stopping and not self._taken:
            asyncio.get_running_loop().stop()

    def _abort(
        self,
        loop: asyncio.AbstractEventLoop,
        given_back: list[Delivery],
        ended: threading.Event,
    ) -> None:
        waiter = loop.create_task(self._end_all(given_back))
        waiter.add_done_callback(lambda task: ended.set())

    async def _end_all(self, given_back: list[Delivery]) -> None:
        for leash in self._leashes.values():
            leash.give_back(given_back)
        if self._leashes:
            await asyncio.wait(list(self._leashes), timeout=LAST_WORDS)

    # -- the threads beside it ---------------------------------------------------------------

    def _fetch(self, delivery: Delivery) -> None:
        attempt = self._admit(delivery)
        self._soon(partial(self._fetched, attempt))

    def _fetched(self, attempt: Attempt | Outcome) -> None:
        """In the thread of the loop again."""
        self._threads.busy -= 1
        Context().run(self._go_on, attempt)
        if isinstance(attempt, Outcome):
            self._free()

    def _run_sync(self, attempt: Attempt) -> None:
        try:
            outcome = Context().run(self._executor.run, attempt)
        except BaseException as error:  # an interrupt belongs to the main thread, not here
            outcome = came_to_nothing(attempt.delivery, error)
        self._done(outcome)
        self._soon(self._free_thread)

    def _free_thread(self) -> None:
        self._threads.busy -= 1
        self._free()


class CoroutineLeash:
    """Cancels the coroutine of one job, and knows why. See `taskmq.executor.Leash`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.task: asyncio.Task[None]
        self.given_back: list[Delivery] = []
        """Where to say that it was cancelled by `give_back`."""
        self.ended_by: BaseException | None = None
        """Why it ended, if it ended by a cancellation."""
        self._loop = loop
        self._holds = False
        self._cause: BaseException | None = None  # of the last cancellation

    @contextmanager
    def hold(self, context: CoroutineContext) -> Iterator[None]:
        limit, timer = context.envelope.timeout, None
        if limit is not None:
            cause = SoftTimeLimit(f"timeout of {limit:g} s is over")
            timer = self._loop.call_later(limit, self._cancel, cause)
        told = partial(self._cancel, JobCancelled(f"job {context.id} was cancelled"))
        context.on_cancel = partial(_soon, self._loop, told)
        self._holds = True
        if context.cancelled:  # since it has been there, which is not long
            told()
        elif self._cause is not None:
            self.task.cancel()
        try:
            yield
        finally:
            self._holds, context.on_cancel = False, None
            if timer is not None:
                timer.cancel()

    def explain(self, error: BaseException) -> BaseException:
        if not isinstance(error, asyncio.CancelledError) or self._cause is None:
            return error
        self.ended_by = self._cause
        return self._cause.with_traceback(error.__traceback__)

    def give_back(self, given_back: list[Delivery]) -> None:
        """The worker has no more time."""
        self.given_back = given_back
        self._cancel(ReleaseJob("the worker stops"))

    def _cancel(self, cause: BaseException) -> None:
        if isinstance(self._cause, JobCancelled):
            return  # nothing outweighs that, and once is enough
        self._cause = cause
        if self._holds:
            self.task.cancel()


class SideThreads:
    """Daemon threads that are made when they are needed, and kept. One thread uses them."""

    def __init__(self) -> None:
        self.busy = 0
        """How many have something to do; the owner counts down."""
        self._count = 0
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    def run(self, work: Callable[[], None]) -> None:
        self.busy += 1
        self._queue.put(work)
        if self.busy > self._count:
            self._count += 1
            name = f"taskmq-side-{self._count}"
            threading.Thread(target=self._live, name=name, daemon=True).start()

    def stop(self) -> None:
        """End when nothing is left."""
        for _ in range(self._count):
            self._queue.put(None)

    def _live(self) -> None:
        while (work := self._queue.get()) is not None:
            work()


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    """Do this in the thread of the loop. Nothing, if that has ended."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(call)


def _close(loop: asyncio.AbstractEventLoop) -> None:
    """End what tasks have started in the loop and left there, and close it."""
    left = asyncio.all_tasks(loop)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.wait(left, timeout=LAST_WORDS))
    loop.run_until_complete(loop.shutdown_asyncgens())
    asyncio.set_event_loop(None)
    loop.close()
