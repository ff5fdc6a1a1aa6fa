"""What everything in a simulation shares: one store, one clock, one source of chance."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

from taskmq.states import JobState
from taskmq.testing.clock import FakeClock
from taskmq.testing.faults import FailAfter, FailBefore, Fault, FaultyTransport
from taskmq.transport import Transport

from .journal import Journal
from .observer import Observer
from .profile import Profile
from .watch import StoreSide

__all__ = ["ChanceFaults", "OpenHandle", "World"]

OpenHandle = Callable[[], Transport]
"""Opens one more handle on the store under test, whose clock is the simulation's."""

UNRELIABLE = frozenset(
    {"enqueue", "exchange", "settle", "reserve", "extend", "check", "register", "unpark"}
    | {"reclaim", "revoke", "pause", "resume", "maintain"}
)


class ChanceFaults:
    """A `taskmq.testing.faults.Plan`: operations fail before or after the store did them."""

    def __init__(self, draw: random.Random, rate: float) -> None:
        self.rate = rate
        self.before = self.after = 0
        """How many there were."""
        self._draw = draw

    def strike(self, operation: str) -> Fault | None:
        if not self.rate or operation not in UNRELIABLE or self._draw.random() >= self.rate:
            return None
        if self._draw.random() < 0.5:
            self.before += 1
            return FailBefore(operation)
        self.after += 1
        return FailAfter(operation)


class World:
    """``draw`` is seeded anew for each move; ``calm`` says that nothing goes wrong any more."""

    def __init__(self, profile: Profile, clock: FakeClock, open_handle: OpenHandle) -> None:
        self.profile = profile
        self.clock = clock
        self.journal = Journal(clock)
        self.observer = Observer(clock, self.journal)
        self.draw = random.Random()
        self.faults = ChanceFaults(self.draw, profile.fault_rate)
        self.calm = False
        self._open_handle = open_handle
        self._handles = [open_handle()]
        self.store = self._handles[0]

    def handle(self, actor: str) -> Transport:
        """A way to the store, watched next to it, with faults on top."""
        if self.store.capabilities.shared:
            self._handles.append(self._open_handle())
        return FaultyTransport(StoreSide(self._handles[-1], self.observer, actor), self.faults)

    def close(self) -> None:
        for handle in self._handles:
            handle.close()

    def choose(self, weights: Mapping[str, float]) -> str:
        return self.draw.choices(list(weights), list(weights.values()))[0]

    def chance(self, probability: float) -> bool:
        return self.draw.random() < probability

    def some_job(self, *states: JobState) -> list[str]:
        """The id of one job in one of these states, if there is any."""
        jobs = self.observer.model.jobs.values()
        found = [job.id for job in jobs if not states or job.state in states]
        return [self.draw.choice(found)] if found else []

    @property
    def is_broken(self) -> bool:
        """Whether something was wrong."""
        return bool(self.observer.findings.violations)

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.advance(seconds)
        self.journal.add("clock", f"+{seconds:.3f} s")
