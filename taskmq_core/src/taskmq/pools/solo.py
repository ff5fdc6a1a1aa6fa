"""One slot, in the worker's own thread: for debugging, and for code that wants the main thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from taskmq.transport import Delivery

from .base import Done, Execute, InProcess, run_one

__all__ = ["SoloPool"]

TURN = 0.005
"""Seconds of work after which outcomes are handed over, however many are still waiting."""


class SoloPool(InProcess):
    """Runs deliveries inside `turn`, one after the other."""

    runs_coroutines = False
    inline = True

    def __init__(self, concurrency: int = 1) -> None:
        """``concurrency`` is ignored: there is one thread, hence one slot."""
        self.slots = 1
        self._pending: deque[Delivery] = deque()
        self._execute: Execute
        self._done: Done

    def start(self, execute: Execute, done: Done) -> None:
        self._execute, self._done = execute, done

    def submit(self, deliveries: Sequence[Delivery]) -> None:
        self._pending.extend(deliveries)

    def unstarted(self) -> int:
        return len(self._pending)

    def withdraw(self) -> list[Delivery]:
        withdrawn: list[Delivery] = []
        while (delivery := self._next()) is not None:
            withdrawn.append(delivery)
        return withdrawn

    def turn(self) -> None:
        spent = 0.0
        while spent < TURN and (delivery := self._next()) is not None:
            outcome = run_one(self._execute, delivery)
            self._done(outcome)
            spent += outcome.runtime

    def stop(self, timeout: float) -> bool:
        return True  # whoever calls this is not inside a job

    def _next(self) -> Delivery | None:
        try:
            return self._pending.popleft()
        except IndexError:
            return None
