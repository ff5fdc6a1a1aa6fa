"""Eager mode: jobs run in the calling thread when they are submitted, through the real executor
and the memory transport. Delays are not waited for: time jumps to the next thing that is due."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from .clock import Clock
from .executor import Executor
from .plugins import open_transport
from .states import TERMINAL
from .transport import Reservation, Transport

if TYPE_CHECKING:
    from .app import App

__all__ = ["EagerRunner", "LeapingClock"]

LEASE = 1e9
"""Seconds. No leap may end the lease of a job that waits, further up the stack, for another."""


class LeapingClock:
    """Another clock, plus every delay that was skipped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead = 0.0

    def now(self) -> float:
        return self._clock.now() + self._ahead

    def monotonic(self) -> float:
        return self._clock.monotonic() + self._ahead

    def leap_to(self, at: float) -> None:
        """Let ``at`` be past, if it is not yet."""
        self._ahead += max(0.0, at - self.now())


class EagerRunner:
    """Runs whatever is in the store until nothing is left, delayed jobs included.

    Every thread that submits runs jobs, its own and those of others.
    """

    def __init__(self, app: App, clock: LeapingClock) -> None:
        self._app = app
        self._clock = clock
        self._executor = Executor(app, worker="eager")
        self._thread = threading.local()

    def open(self) -> Transport:
        """A private memory transport on the leaping clock."""
        return open_transport("memory://", clock=self._clock)

    def run(self, transport: Transport) -> None:
        """Run to the end. A submit from inside a task only queues: the outer call runs it."""
        if getattr(self._thread, "busy", False):
            return
        self._thread.busy = True
        self._app.load()
        try:
            while self._step(transport):
                pass
        finally:
            self._thread.busy = False

    def finish(self, transport: Transport, job_id: str) -> None:
        """Run until that job is finished or nothing is left: a task waits for another's result."""
        while self._unfinished(transport, job_id) and self._step(transport):
            pass

    def _unfinished(self, transport: Transport, job_id: str) -> bool:
        (record,) = transport.get([job_id])
        return record is not None and record.state not in TERMINAL

    def _step(self, transport: Transport) -> bool:
        """Run one job, or jump to when there is one; whether there was any."""
        queues = {stats.queue: 1 for stats in transport.stats()}
        wanted = Reservation(queues=queues, worker="eager", lease=LEASE, limit=1)
        exchange = transport.exchange((), wanted)
        for delivery in exchange.deliveries:
            transport.settle([self._executor.execute(delivery).settlement])
        if exchange.deliveries:
            return True
        unfinished = any(s.delayed > s.parked for s in transport.stats())
        if unfinished and exchange.next_due_at is not None:
            self._clock.leap_to(exchange.next_due_at)
            return True
        return False
