"""As the asyncio pool: coroutines of the real executor, on the real leash, resumed by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, cast

from taskmq.clock import Clock
from taskmq.errors import JobCancelled, ReleaseJob
from taskmq.executor import Attempt, Executor, Outcome
from taskmq.pools import Setting
from taskmq.pools.leash import CoroutineLeash
from taskmq.transport import DeadLetter, Defer, Delivery, Nack, RetryLater, Revoke, Settlement

from .slots import Script, SlotPool

__all__ = ["CoroutinePool", "Standstill"]


class Standstill:
    """Await it, and nothing goes on until the simulation says so."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class Timer:
    """One call to come."""

    def __init__(self, at: float, call: Callable[[], None]) -> None:
        self.at = at
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class SteppedLoop:
    """As much of an event loop as a leash needs, on the simulation's clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timers: list[Timer] = []

    def time(self) -> float:
        return self._clock.monotonic()

    def call_later(self, delay: float, call: Callable[..., None], *arguments: Any) -> Timer:
        timer = Timer(self._clock.monotonic() + delay, lambda: call(*arguments))
        self._timers.append(timer)
        return timer

    def call_soon_threadsafe(self, call: Callable[[], None]) -> None:
        call()

    def catch_up(self) -> None:
        """Make the calls that are due."""
        now = self._clock.monotonic()
        due = [timer for timer in self._timers if timer.at <= now]
        self._timers = [timer for timer in self._timers if timer.at > now]
        for timer in due:
            if timer.call is not None:
                timer.call()


class Strand:
    """One coroutine, with what an ``asyncio.Task`` would be to its leash."""

    def __init__(self, delivery: Delivery, leash: CoroutineLeash) -> None:
        self.delivery = delivery
        self.leash = leash
        self.at_most_once = False
        self._to_cancel = False
        self._variables = Context()
        self._coroutine: Coroutine[Any, Any, Outcome]

    def begin(self, executor: Executor, attempt: Attempt) -> Outcome | None:
        self.at_most_once = attempt.envelope.ack == "on_completion"
        self._coroutine = executor.run_async(attempt, self.leash)
        outcome = self.resume()
        if outcome is None:
            self.leash.tie(cast("asyncio.Task[None]", self))
        return outcome

    def cancel(self) -> None:
        self._to_cancel = True

    def resume(self) -> Outcome | None:
        """Up to where it stands still again, or to its outcome."""
        try:
            if self._to_cancel:
                self._to_cancel = False
                self._variables.run(self._coroutine.throw, asyncio.CancelledError())
            else:
                self._variables.run(self._coroutine.send, None)
        except StopIteration as end:
            return cast(Outcome, end.value)
        return None

    def close(self) -> None:
        self._coroutine.close()


class CoroutinePool(SlotPool):
    """Several coroutines at once, which can be cancelled where they stand still."""

    runs_coroutines = True

    def __init__(self, slots: int, setting: Setting, script: Script) -> None:
        super().__init__(slots, script)
        self._executor = setting.executor or Executor(setting.app, worker=setting.worker)
        self._loop = SteppedLoop(setting.app.clock)
        self._running: list[Strand] = []

    def running(self) -> list[Delivery]:
        return [strand.delivery for strand in self._running]

    def abort(self) -> list[Delivery]:
        """Cancel all; those that do not let themselves be cancelled are left."""
        given_back: list[Delivery] = []
        for strand in list(self._running):
            strand.leash.give_back(given_back)
            self._resume(strand)
        return given_back

    def _start(self, delivery: Delivery) -> None:
        attempt = self._executor.admit(delivery)
        if isinstance(attempt, Outcome):
            self._done(attempt)
            return
        leash = CoroutineLeash(cast(asyncio.AbstractEventLoop, self._loop))
        strand = Strand(delivery, leash)
        outcome = strand.begin(self._executor, attempt)
        if outcome is None:
            self._running.append(strand)
        else:
            self._done(outcome)

    def go_on(self, number: int) -> None:
        self._loop.catch_up()
        self._resume(self._running[number])

    def _resume(self, strand: Strand) -> None:
        outcome = strand.resume()
        if outcome is None:
            return
        self._running.remove(strand)
        cause = strand.leash.ended_by
        if cause is not None:
            self._script.ended(strand.delivery, *_settlements(cause, strand))
        if isinstance(cause, ReleaseJob) and strand.leash.given_back is not None:
            strand.leash.given_back.append(strand.delivery)
        else:
            self._done(outcome)

    def discard(self) -> None:
        for strand in self._running:
            strand.close()
        self._running.clear()


def _settlements(cause: BaseException, strand: Strand) -> tuple[type[Settlement], ...]:
    if isinstance(cause, ReleaseJob):
        return Defer, Nack
    if isinstance(cause, JobCancelled):
        return (Revoke,)
    return (DeadLetter,) if strand.at_most_once else (RetryLater, DeadLetter)
