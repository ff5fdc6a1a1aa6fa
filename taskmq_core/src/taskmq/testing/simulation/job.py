"""A job as it should be stored, and how a record differs from that."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from taskmq.codec import Payload
from taskmq.envelope import Envelope, RunIf, Sealed
from taskmq.records import Held, JobRecord
from taskmq.states import TERMINAL, Event, JobState, next_state
from taskmq.transport import Delivery, Settlement

from .rules import Rule

__all__ = ["UNSTARTED", "Edge", "Job", "Turn"]

UNSTARTED = frozenset({JobState.QUEUED, JobState.RETRYING})
MAX_HISTORY = 20


@dataclass(slots=True)
class Edge:
    """What one dependency has handed over."""

    met: bool = False
    result: Payload | None = None
    loss: JobState | None = None
    """How it ended without success, where that does not matter."""
    optional: bool = False
    """A store need not have the result: it came too late for one that was not kept."""


@dataclass(frozen=True, slots=True)
class Turn:
    """From ``rank`` to ``end`` in virtual time. ``key`` is ``None`` once nobody pays for it."""

    rank: int
    end: int
    key: str | None


@dataclass(slots=True)
class Job:
    """What the port promises of one job. Written from the port's text, not from any store.

    ``changed`` becomes true with every change, so that what did not change need not be compared
    field by field again.
    """

    sequence: int
    id: str
    sealed: Sealed
    state: JobState
    visible_at: float
    eta: float | None
    edges: dict[str, Edge]
    run_if: RunIf = "succeeded"
    delegated_to: str | None = None
    attempt: int = 1
    deliveries: int = 0
    reclaims: int = 0
    yields: int = 0
    tokens: list[int] = field(default_factory=list)
    lease_until: float | None = None
    worker: str | None = None
    settled_as: type[Settlement] | None = None
    cancel_requested: bool = False
    terminate_requested: bool = False
    parked_reason: str | None = None
    parked_at: float | None = None
    park_ttl: float = 0.0
    finished_at: float | None = None
    dead_reason: str | None = None
    reported: bool = False
    """Whether the last thing that went wrong left a failure to show."""
    result: Payload | None = None
    history: int = 0
    is_unwanted: bool = False
    """Its workflow has failed fast. If that met an ended lease in one step, it may have been asked
    to stop before or after it was taken back."""
    turn: Turn | None = None
    revoked_by: str | None = None
    revoked_at: float | None = None
    changed: bool = True

    def __setattr__(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)
        if name != "changed":
            object.__setattr__(self, "changed", True)

    @property
    def envelope(self) -> Envelope:
        return self.sealed.envelope

    @property
    def line(self) -> tuple[str, int]:
        """In which it stands: queue and priority."""
        return self.sealed.envelope.queue, self.sealed.envelope.priority

    @property
    def place(self) -> tuple[int, int]:
        """Where it stands in its line."""
        return (0 if self.turn is None else self.turn.rank), self.sequence

    @property
    def is_running(self) -> bool:
        return self.state is JobState.RUNNING

    @property
    def token(self) -> int | None:
        """Of the newest delivery."""
        return self.tokens[-1] if self.tokens else None

    @property
    def pending(self) -> int:
        return sum(not edge.met for edge in self.edges.values())

    @property
    def losses(self) -> dict[str, str]:
        """How those ended that it waited for and that are lost."""
        return {name: edge.loss.value for name, edge in self.edges.items() if edge.loss}

    @property
    def expires_at(self) -> float | None:
        """One that has delegated does not expire."""
        return None if self.delegated_to else self.envelope.expires_at

    @property
    def kept(self) -> bool:
        """Whether the store still has to know it after a success."""
        return self.envelope.result_ttl > 0

    def is_ready(self, now: float) -> bool:
        return self.state in UNSTARTED and self.visible_at <= now

    def is_expired(self, now: float) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def is_held(self, now: float) -> bool:
        """Whether somebody has a lease on it that has not run out."""
        return self.state is JobState.RUNNING and (self.lease_until or 0.0) > now

    # -- what happens to it --------------------------------------------------------------------

    def move(self, event: Event, now: float) -> None:
        """Change state by the one table."""
        state = next_state(self.state, event)
        if state is None:
            raise AssertionError(f"the model moves {self.id} from {self.state} by {event.value}")
        self.state = state
        if state is not JobState.RUNNING:
            self.lease_until = None
        if state in TERMINAL:
            self.finished_at = now
            self.unpark()

    def unpark(self) -> None:
        self.parked_reason = self.parked_at = None

    def note(self) -> None:
        self.history = min(MAX_HISTORY, self.history + 1)

    def redirect(self, sealed: Sealed) -> None:
        """Another envelope. In another line it has no turn."""
        line = self.line
        self.sealed = sealed
        if self.line != line:
            self.turn = None

    def revoke_noted(self, by: str, now: float) -> None:
        """Who wanted that, if nobody did before."""
        if self.revoked_at is None:
            self.revoked_by, self.revoked_at = by, now

    # -- what is stored of it --------------------------------------------------------------------

    def differences(self, record: JobRecord) -> Iterator[tuple[Rule, str]]:
        """Where a store's record is not as promised."""
        if record.state is not self.state:
            yield "state", f"is {record.state}, should be {self.state}"
            return
        for name in ("attempt", "deliveries", "reclaims"):
            if getattr(record, name) != getattr(self, name):
                yield "counters", _unlike(name, getattr(record, name), getattr(self, name))
        for name, expected in self._columns().items():
            if getattr(record, name) != expected:
                yield "answer", _unlike(name, getattr(record, name), expected)
        if record.held is not None:
            yield from self._misheld(record.held)
        if self.state is JobState.FAILED:
            yield from self._dead_letter(record)
        elif abs(len(record.history) - self.history) > self.is_unwanted:
            yield "answer", _unlike("entries of history", len(record.history), self.history)

    def _columns(self) -> dict[str, object]:
        envelope = self.envelope
        columns: dict[str, object] = {
            "task": envelope.task,
            "queue": envelope.queue,
            "priority": envelope.priority,
            "expires_at": self.expires_at,
            "delegated_to": self.delegated_to,
            "max_deliveries": envelope.max_deliveries,
            "envelope": b"" if self.state is JobState.SUCCEEDED else self.sealed.data,
            "result": self.result if envelope.store_result else None,
            "lease_until": self.lease_until,
            "finished_at": self.finished_at,
            "dead_reason": self.dead_reason,
            "parked_reason": self.parked_reason,
            "parked_at": self.parked_at,
            "revoked_by": self.revoked_by,
            "revoked_at": self.revoked_at,
        }
        if not (self.is_unwanted and self.state is JobState.REVOKED):
            columns["cancel_requested"] = self.cancel_requested
        if not envelope.limits:
            columns["held"] = None
            if self.state in UNSTARTED:
                columns["visible_at"] = self.visible_at
        if self.state is JobState.RUNNING:
            columns["worker"] = self.worker
        if self.state is JobState.WAITING:
            columns["pending"] = self.pending
        return columns

    def _misheld(self, held: Held) -> Iterator[tuple[Rule, str]]:
        if self.state not in UNSTARTED:
            yield "limit", f"is held while it is {self.state}"
        if held.limit not in self.envelope.limits:
            yield "limit", f"is held by {held.limit}, which it does not have"

    def _dead_letter(self, record: JobRecord) -> Iterator[tuple[Rule, str]]:
        if len(record.history) != self.history:
            expected = f"{self.history} entries of history"
            yield "dead-letter", f"has {len(record.history)} entries of history, not {expected}"
        if not record.dead_reason:
            yield "dead-letter", "has no reason"
        if not record.envelope:
            yield "dead-letter", "has lost its payload"
        if self.reported and record.failure is None:
            yield "dead-letter", "has lost its failure"

    def misdescribed(self, delivery: Delivery) -> Iterator[tuple[Rule, str]]:
        """Where a delivery that was just made of it is not as promised."""
        for name in ("attempt", "deliveries", "reclaims", "yields"):
            if getattr(delivery, name) != getattr(self, name):
                text = _unlike(name, getattr(delivery, name), getattr(self, name))
                yield "counters", f"was delivered with {text}"
        told = (delivery.queue, delivery.priority, delivery.parked_at, delivery.lease_until)
        true = (self.envelope.queue, self.envelope.priority, self.parked_at, self.lease_until)
        if told != true:
            yield "answer", f"was delivered with queue, priority, parked, lease {told}, not {true}"
        if delivery.envelope != self.sealed.data:
            yield "lost", "was delivered with another envelope"
        inputs = delivery.inputs or {}
        handed = {name: edge.result for name, edge in self.edges.items() if edge.result}
        needed = {name for name in handed if not self.edges[name].optional}
        if not inputs.items() <= handed.items() or not needed <= inputs.keys():
            yield "dependencies", f"was delivered with {delivery.inputs}, not {handed}"
        losses = {name: loss.state for name, loss in (delivery.losses or {}).items()}
        if losses != self.losses:
            yield "dependencies", f"was delivered with losses {losses}, not {self.losses}"


def _unlike(name: str, found: object, expected: object) -> str:
    return f"has {name} {found!r}, should have {expected!r}"
