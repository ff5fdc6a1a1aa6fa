"""One event loop, in a thread of its own: for tasks that are ``async def``, hundreds at once.

Waiting deliveries are taken by *carriers*: each is an ``asyncio.Task``, and has a slot. It runs one
job after the other as long as none waits for anything; from the first ``await`` at which a job
stands still the task is that job's alone, and ends with it. So a job that has to wait has a task
of its own, and short ones that never wait share one. Each has context variables of its own.

A coroutine is interrupted by cancelling it, which is how asyncio does it: ``CancelledError`` comes
out of the ``await`` that it waits at. Each reason (its ``timeout`` is over, it was revoked or its
lease is lost, the worker has no more time) cancels it once. If the cancellation comes out of the
task, the attempt ends for that reason; a task that swallows it goes on, and what it returns counts.

Tasks that are plain functions run in threads beside the loop, each in a slot like any other.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextvars import Context
from functools import partial
from typing import Any, cast

from taskmq.errors import ReleaseJob
from taskmq.executor import Attempt, Executor, Outcome
from taskmq.transport import Delivery

from .base import Done, Execute, InProcess, came_to_nothing
from .leash import CoroutineLeash, soon
from .side import SideThreads

__all__ = ["AsyncioPool"]

logger = logging.getLogger("taskmq.pools")

LAST_WORDS = 0.3
"""Seconds that coroutines have to clean up when they are ended with the worker."""

TURN = 0.001
"""Seconds of work that a carrier does before others get to run in the loop."""

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
        self._fresh = 0  # carriers whose job does not wait for anything, or that have not begun
        self._wait = True  # jobs do, of late
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
            soon(self._loop, call)

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
        """Have carriers for what waits: where jobs do not wait themselves, one has enough to do
        that others would come too late."""
        if self._stopping:
            return
        wanted = min(len(self._pending), self.slots - self._taken)
        if not self._wait:
            wanted = min(wanted, 1 - self._fresh)
        for _ in range(wanted):
            self._taken += 1
            self._send_carrier(None)

    def _send_carrier(self, first: Attempt | None) -> None:
        """In a slot that is taken."""
        self._fresh += 1
        loop = asyncio.get_running_loop()
        Context().run(loop.create_task, self._carry(loop, first))

    async def _carry(self, loop: asyncio.AbstractEventLoop, first: Attempt | None) -> None:
        task = cast("asyncio.Task[None]", asyncio.current_task())
        leash = CoroutineLeash(loop)  # of the job that will stand still: no other has used it up
        spent = 0.0
        todo: Attempt | Delivery | None = first or self._next()
        while todo is not None:
            variables = Context()
            step = variables.run(self._begin, todo, leash)
            if isinstance(step, Outcome):
                self._done(step)
                self._wait = False
                spent += step.runtime
                if spent >= TURN or not _is_as_new(task):
                    break
            elif isinstance(step, Standstill):
                self._fresh -= 1
                await self._see_to(step, task, leash, variables)
                self._free()
                return
            elif self._taken < self.slots:
                self._taken += 1
            else:  # its slot is that of a thread now
                self._fresh -= 1
                return
            todo = self._next()
        self._fresh -= 1
        self._free()

    def _begin(
        self, todo: Attempt | Delivery, leash: CoroutineLeash
    ) -> Outcome | Standstill | None:
        """Up to where the job first stands still, or its end; ``None``: it is a thread's."""
        if isinstance(todo, Attempt):
            attempt = todo
        elif REFERENCE in todo.envelope:  # its arguments have to be fetched, which may take long
            self._threads.run(partial(self._fetch, todo))
            return None
        else:
            admitted = self._admit(todo)
            if isinstance(admitted, Outcome):
                return admitted
            attempt = admitted
        if not attempt.task.is_async:
            self._threads.run(partial(self._run_sync, attempt))
            return None
        coroutine = self._executor.run_async(attempt, leash)
        try:
            return Standstill(attempt.delivery, coroutine, coroutine.send(None))
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome
        except BaseException as error:
            return came_to_nothing(attempt.delivery, error)

    async def _see_to(
        self,
        rest: Standstill,
        task: asyncio.Task[None],
        leash: CoroutineLeash,
        variables: Context,
    ) -> None:
        """To the end of a job that has to wait."""
        self._wait = True
        if self._pending:
            self._fill()
        self._leashes[task] = leash
        leash.tie(task)
        try:
            outcome = await Rest(rest, variables)
        except BaseException as error:
            outcome = came_to_nothing(rest.delivery, error)
        del self._leashes[task]
        if isinstance(leash.ended_by, ReleaseJob) and leash.given_back is not None:
            leash.given_back.append(rest.delivery)  # which says all
        else:
            self._done(outcome)

    def _admit(self, delivery: Delivery) -> Attempt | Outcome:
        try:
            return self._executor.admit(delivery)
        except Exception as error:
            return came_to_nothing(delivery, error)

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
        if isinstance(attempt, Outcome):
            self._done(attempt)
            self._free()
        elif attempt.task.is_async:
            self._send_carrier(attempt)
        else:
            self._threads.run(partial(self._run_sync, attempt))

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


class Standstill:
    """A coroutine, and what it waits for."""

    __slots__ = ("awaited", "coroutine", "delivery")

    def __init__(
        self, delivery: Delivery, coroutine: Coroutine[Any, Any, Outcome], awaited: object
    ) -> None:
        self.delivery = delivery
        self.coroutine = coroutine
        self.awaited = awaited


class Rest:
    """The rest of a coroutine, to be awaited; its steps see its own context variables."""

    __slots__ = ("_rest", "_variables")

    def __init__(self, rest: Standstill, variables: Context) -> None:
        self._rest = rest
        self._variables = variables

    def __await__(self) -> Generator[object, Any, Outcome]:
        coroutine, run = self._rest.coroutine, self._variables.run
        awaited = self._rest.awaited
        while True:
            error: BaseException | None = None
            try:
                value = yield awaited
            except BaseException as thrown:
                error = thrown
            try:
                if error is None:
                    awaited = run(coroutine.send, value)
                else:
                    awaited = run(coroutine.throw, error)
            except StopIteration as end:
                outcome: Outcome = end.value
                return outcome
            finally:
                error = None  # no ring of frame and traceback


def _is_as_new(task: asyncio.Task[None]) -> bool:
    """Whether nothing of one job is left to the next: it may have cancelled the task it ran in."""
    return sys.version_info >= (3, 11) and not task.cancelling()


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
