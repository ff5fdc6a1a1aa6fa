"""The gates of the memory transport: who runs behind them, who is held, who stands for a lane."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from taskmq.limits import Limit
from taskmq.states import JobState
from taskmq.transports._gates import Gates, Lane

from .job import Job
from .ordered import Ordered

if TYPE_CHECKING:
    from .store import Store

__all__ = ["Departure", "GateIndex", "MemoryBooks", "open_gates", "refill"]


class Departure(NamedTuple):
    """A job runs no longer, or will not run. ``refunded``: it was let pass, but has not started."""

    limits: Sequence[Limit]
    queue: str
    priority: int
    refunded: bool = False


class GateIndex:
    """The jobs that have a gate, by where they stand."""

    def __init__(self) -> None:
        self.running: defaultdict[str, set[str]] = defaultdict(set)
        self.held: dict[Lane, Ordered[float]] = {}  # in store order
        self.representatives: defaultdict[Lane, list[tuple[int, str]]] = defaultdict(list)
        """By place, and sorted."""
        self.lanes: defaultdict[str, set[Lane]] = defaultdict(set)  # those with either
        self.until: dict[str, float] = {}

    def place(self, job: Job) -> None:
        """Enter a job that has a gate."""
        gate = job.gate or ""
        lane = Lane(gate, job.queue, job.priority)
        if job.state is JobState.RUNNING:
            self.running[gate].add(job.id)
        elif job.held:
            self.held.setdefault(lane, Ordered[float]()).put(job.id, job.place)
            self.lanes[gate].add(lane)
        else:
            insort(self.representatives[lane], (job.place, job.id))
            self.lanes[gate].add(lane)

    def remove(self, job: Job) -> None:
        """Strike a job out. Its gate, state, queue and priority must be what they were."""
        gate = job.gate or ""
        lane = Lane(gate, job.queue, job.priority)
        if job.state is JobState.RUNNING:
            self.running[gate].discard(job.id)
            if not self.running[gate]:
                del self.running[gate]
        elif job.held:
            self.held[lane].discard(job.id)
            if not self.held[lane]:
                del self.held[lane]
                self._leave(lane)
        else:
            line = self.representatives[lane]
            del line[bisect_left(line, (job.place, job.id))]
            if not line:
                del self.representatives[lane]
                self._leave(lane)

    def _leave(self, lane: Lane) -> None:
        if lane not in self.held and lane not in self.representatives:
            self.lanes[lane.gate].discard(lane)
            if not self.lanes[lane.gate]:
                del self.lanes[lane.gate]


class MemoryBooks:
    """A `taskmq.transports._gates.Books`."""

    def __init__(self, store: Store, now: float) -> None:
        self._store = store
        self._index = store.gates
        self._now = now

    def running(self, gate: str) -> int:
        return len(self._index.running.get(gate, ()))

    def until(self, gate: str) -> float:
        return self._index.until.get(gate, 0.0)

    def set_until(self, gate: str, until: float) -> None:
        self._index.until[gate] = until

    def representatives(self, lane: Lane) -> int:
        line = self._index.representatives.get(lane, [])
        held = self._index.held.get(lane)
        return len(line) if held is None else bisect_left(line, (held.first(), ""))

    def first_held(self, lane: Lane) -> Sequence[Limit] | None:
        line = self._index.held.get(lane)
        return None if line is None else self._store.jobs[line.peek()].limits

    def lanes(self, gate: str) -> list[Lane]:
        return sorted(self._index.lanes.get(gate, ()))

    def hasten(self, gate: str, visible_at: float) -> None:
        lanes = self._index.lanes.get(gate, ())
        names = [name for lane in lanes for _, name in self._index.representatives.get(lane, ())]
        for job in [self._store.jobs[name] for name in names]:
            if job.visible_at > visible_at:
                self._store.reschedule(job, self._now, visible_at=visible_at)

    def promote(self, lane: Lane, count: int, visible_at: float | None) -> None:
        for _ in range(min(count, len(self._index.held[lane]))):
            self._store.let_go(lane, self._now, visible_at)


def open_gates(store: Store, now: float) -> Gates:
    """The gates of a store, for one operation."""
    return Gates(MemoryBooks(store, now), now)


def refill(store: Store, now: float) -> None:
    """Let others take the place of those that have departed."""
    departures, store.departures = store.departures, []
    if departures:
        gates = open_gates(store, now)
        for departure in departures:
            gates.leave(departure.limits, departure.queue, departure.priority)
            if departure.refunded:
                gates.refund(departure.limits)
        gates.refill()
