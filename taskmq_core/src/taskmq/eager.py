"""Eager mode: jobs run in the calling thread when they are submitted, through the real executor
and the memory transport. Delays are not waited for: time jumps to the next thing that is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .clock import Clock
from .executor import Executor
from .plugins import open_transport
from .transport import Reservation, Transport

if TYPE_CHECKING:
    from .app import App

__all__ = ["EagerRunner"]


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
    """Runs whatever is in the store until nothing is left, delayed jobs included."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._clock = LeapingClock(app.clock)
        self._busy = False

    def open(self) -> Transport:
        """A private memory transport on the leaping clock."""
        return open_transport("memory://", clock=self._clock)

    def run(self, transport: Transport) -> None:
        """Run to the end. A submit from inside a task only queues: the outer call runs it."""
        if self._busy:
            return
        self._busy = True
        self._app.load()
        executor = Executor(self._app, worker="eager")
        try:
            while self._step(transport, executor):
                pass
        finally:
            self._busy = False

    def _step(self, transport: Transport, executor: Executor) -> bool:
        queues = {stats.queue: 1 for stats in transport.stats()}
        wanted = Reservation(queues=queues, worker="eager", lease=3600.0, limit=1)
        exchange = transport.exchange((), wanted)
        for delivery in exchange.deliveries:
            transport.settle([executor.execute(delivery).settlement])
        if exchange.deliveries:
            return True
        unfinished = any(s.delayed > s.parked for s in transport.stats())
        if unfinished and exchange.next_due_at is not None:
            self._clock.leap_to(exchange.next_due_at)
            return True
        return False
