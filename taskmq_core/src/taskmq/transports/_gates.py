"""Who may pass, who waits, and who comes next: the limits of jobs, alike for the embedded stores.

Jobs that a limit keeps from running are *held* behind its gate, out of the way of all others. They
stand in lanes, one for each queue and priority, so that none of them waits for a queue that nobody
serves or for something less urgent. Of each lane the first jobs are not held but ready (or, behind
a rate, delayed until the gate opens): its *representatives*. Reserving asks the gates, so that no
limit is ever exceeded; what it may not have, it holds. Whenever a job leaves (reserved, ended,
held elsewhere), its lanes are refilled.

Nobody is forgotten: of each lane as many stand ready as its gate would let pass, and behind a
closed rate one is delayed until it opens. Nobody is overtaken either: representatives come before
those that are held, so that one behind the first held job does not count as such. A lane whose
representative has gone to another gate, while its own would let somebody pass, is *pressing*: it is
refilled before anything else is looked at. And when a rate gets a start back, those that are
delayed by it are due earlier.

Each job is looked at once when it comes, once when its turn comes, and once more for each limit
that refuses it then: 100,000 held ones cost the others nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from taskmq.limits import Limit, following, opens_at, room

__all__ = ["Books", "Gates", "Lane", "pause_gate"]


def pause_gate(workflow: str) -> str:
    """The gate behind which jobs of a paused workflow are held. It has no limit, so that nothing
    passes it until all do."""
    return f"workflow:{workflow}"


class Lane(NamedTuple):
    """Where held jobs stand."""

    gate: str
    queue: str
    priority: int


class Books(Protocol):
    """What a store knows of its gates."""

    def running(self, gate: str) -> int:
        """How many jobs run behind a concurrency gate."""

    def until(self, gate: str) -> float:
        """The memory of a rate gate; 0 if it is new."""

    def set_until(self, gate: str, until: float) -> None: ...

    def representatives(self, lane: Lane) -> int:
        """How many jobs that are ready or delayed stand for a lane, before the first held one."""

    def first_held(self, lane: Lane) -> Sequence[Limit] | None:
        """The limits of the first job in a lane; ``None`` if it is empty."""

    def lanes(self, gate: str) -> list[Lane]:
        """The lanes of a gate that are not empty."""

    def promote(self, lane: Lane, count: int, visible_at: float | None) -> None:
        """Make the first jobs of a lane ready now, or delayed until an instant."""

    def hasten(self, gate: str, visible_at: float) -> None:
        """Delay the representatives of a rate gate until then, and no longer."""


class Gates:
    """The gates during one operation on a store."""

    def __init__(self, books: Books, now: float) -> None:
        self._books = books
        self._now = now
        self._running: dict[str, int] = {}
        self._until: dict[str, float] = {}
        self._new: dict[Lane, int] = {}  # jobs of this operation that are not held
        self._holding: set[Lane] = set()  # lanes that are known to hold jobs
        self._touched: dict[Lane, None] = {}
        self._pressing: dict[Lane, None] = {}
        self._filled: set[Lane] = set()  # of rates: as many represent them as may pass
        self._left: set[str] = set()  # gates that somebody left
        self._refunded: dict[str, Limit] = {}
        self._promoted = False

    # -- enqueue -----------------------------------------------------------------------------

    def place(self, limits: Sequence[Limit], queue: str, priority: int) -> str | None:
        """Where a new job stands that could run now: the gate that holds it, or ``None``. Where
        jobs have turns, `refill` has to follow: a new one may come before others then."""
        lanes = [Lane(limit.gate, queue, priority) for limit in limits]
        for lane, limit in zip(lanes, limits, strict=True):
            if self._is_full(lane, limit):
                self._holding.add(lane)
                self._touched[lane] = None
                return lane.gate
        for lane in lanes:
            self._new[lane] += 1
        return None

    def _is_full(self, lane: Lane, limit: Limit) -> bool:
        if lane in self._holding:
            return True
        if lane not in self._new:
            self._new[lane] = self._books.representatives(lane)
            if self._books.first_held(lane) is not None:
                return True
        return self._new[lane] >= (self._room(limit) or limit.kind == "rate")

    # -- reserve -----------------------------------------------------------------------------

    def admit(self, limits: Sequence[Limit], queue: str, priority: int) -> str | None:
        """Let a job run, or name the gate that it has to be held at. When it is where that says,
        `press_on` has to be called, if the gates are `pressing`."""
        refused_by = next((limit.gate for limit in limits if self._room(limit) < 1), None)
        if refused_by is not None:
            self.step_aside(limits, queue, priority)
            return refused_by
        for limit in limits:
            lane = Lane(limit.gate, queue, priority)
            self._touched[lane] = None
            if limit.kind == "concurrency":
                self._running[limit.gate] += 1
            else:
                self._pass_rate(lane, limit)
        return None

    def _pass_rate(self, lane: Lane, limit: Limit) -> None:
        self._remember(limit.gate, following(limit, self._until[limit.gate], self._now))
        if lane not in self._filled and self._room(limit) > 0:
            # One was enough to wait for the gate; now it is open for several.
            self._filled.add(lane)
            self._pressing[lane] = None

    def step_aside(self, limits: Sequence[Limit], queue: str, priority: int) -> None:
        """A ready job is to be held, at whatever gate. `press_on` has to follow, see `admit`."""
        for limit in limits:
            lane = Lane(limit.gate, queue, priority)
            self._touched[lane] = None
            if self._room(limit) > 0:
                self._pressing[lane] = None  # it may have stood for this lane

    @property
    def pressing(self) -> bool:
        """Whether somebody may have to come before all who are looked at next."""
        return bool(self._pressing)

    def press_on(self) -> bool:
        """See to them; whether a job is ready now that was not."""
        pressing, self._pressing = self._pressing, {}
        promoted = [lane for lane in pressing if self._refill(lane)]
        self._promoted = self._promoted or bool(promoted)
        return bool(promoted)

    # -- any end -----------------------------------------------------------------------------

    def leave(self, limits: Sequence[Limit], queue: str, priority: int) -> None:
        """A job runs no longer, or will not run."""
        for limit in limits:
            self._touched[Lane(limit.gate, queue, priority)] = None
            if limit.kind == "concurrency" and limit.gate not in self._left:
                self._left.add(limit.gate)
                self._touched.update(dict.fromkeys(self._books.lanes(limit.gate)))

    def refund(self, limits: Sequence[Limit]) -> None:
        """A job that was let pass has not started."""
        for limit in limits:
            if limit.kind == "rate":
                self._room(limit)
                self._remember(limit.gate, self._until[limit.gate] - limit.interval)
                self._refunded[limit.gate] = limit

    def refill(self) -> bool:
        """See to the lanes that were touched, and those of rates that were refunded; whether a job
        is ready now that was not, since this was asked last."""
        for gate, limit in self._refunded.items():
            self._books.hasten(gate, opens_at(limit, self._until[gate]))
        touched, self._touched, self._refunded = self._touched, {}, {}
        promoted = [lane for lane in touched if self._refill(lane)]
        answer, self._promoted = self._promoted or bool(promoted), False
        return answer

    def _refill(self, lane: Lane) -> bool:
        held = self._books.first_held(lane)
        if held is None:
            return False
        limit = next(limit for limit in held if limit.gate == lane.gate)
        free, visible_at = self._room(limit), None
        if not free and limit.kind == "rate":
            free, visible_at = 1, opens_at(limit, self._until[lane.gate])
        missing = free - self._books.representatives(lane)
        if missing < 1:
            return False
        self._books.promote(lane, missing, visible_at)
        return visible_at is None

    def _room(self, limit: Limit) -> int:
        gate = limit.gate
        if limit.kind == "concurrency":
            if gate not in self._running:
                self._running[gate] = self._books.running(gate)
            return max(0, limit.amount - self._running[gate])
        if gate not in self._until:
            self._until[gate] = self._books.until(gate)
        return room(limit, self._until[gate], self._now)

    def _remember(self, gate: str, until: float) -> None:
        self._until[gate] = until
        self._books.set_until(gate, until)
