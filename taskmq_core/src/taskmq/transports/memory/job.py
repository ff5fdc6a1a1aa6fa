"""One stored job: its columns, and the values that are made from them."""

from __future__ import annotations

import msgspec

from taskmq.codec import Payload
from taskmq.envelope import AckPolicy, Envelope, RunIf, Sealed
from taskmq.limits import Limit
from taskmq.records import Failure, Held, HistoryEntry, JobRecord, Loss
from taskmq.states import Event, JobState
from taskmq.transport import Delivery, Settlement
from taskmq.transports._fair import Turn

__all__ = ["Edge", "Job"]

MAX_HISTORY = 20
MAX_DETAIL = 500


class Edge(msgspec.Struct, gc=False):
    """What one dependency has handed over. Owned by the dependent."""

    met: bool = False
    result: Payload | None = None
    loss: Loss | None = None


class Job(msgspec.Struct, kw_only=True, gc=False):
    """A row of the store. `transport.py` says what each operation does to it."""

    id: str
    sequence: int
    state: JobState
    enqueued_at: float
    visible_at: float
    eta: float | None
    key: str | None
    workflow: str | None
    edges: dict[str, Edge]  # by the id of what it waits for
    pending: int  # edges that are not met
    run_if: RunIf
    fail_fast: bool
    # what a replacement envelope brings
    data: bytes = b""
    task: str = ""
    queue: str = ""
    priority: int = 0
    expires_at: float | None = None
    ack: AckPolicy = "on_success"
    max_deliveries: int = 5
    store_result: bool = True
    result_ttl: float = 0.0
    limits: tuple[Limit, ...] = ()
    # what happens to it
    delegated_to: str | None = None
    attempt: int = 1
    deliveries: int = 0
    reclaims: int = 0
    yields: int = 0
    token: int = 0
    settled_as: type[Settlement] | None = None  # how the delivery with this token ended
    started_at: float | None = None
    finished_at: float | None = None
    lease_until: float | None = None
    worker: str | None = None
    cancel_requested: bool = False
    terminate_requested: bool = False
    revoked_by: str | None = None
    revoked_at: float | None = None
    parked_reason: str | None = None
    parked_at: float | None = None
    park_ttl: float | None = None
    result: Payload | None = None
    failure: Failure | None = None
    dead_reason: str | None = None
    history: list[HistoryEntry] = []
    turn: Turn | None = None  # in a line that has turns
    held: bool = False
    gate: str | None = None  # whose lane it is in, or runs behind; see `taskmq.transports._gates`

    @classmethod
    def new(cls, sealed: Sealed, sequence: int, now: float) -> Job:
        """A job as it is stored first."""
        envelope = sealed.envelope
        edges = {dependency.job: Edge() for dependency in envelope.after}
        job = cls(
            id=envelope.id,
            sequence=sequence,
            state=JobState.WAITING if edges else JobState.QUEUED,
            enqueued_at=now,
            visible_at=now,
            eta=envelope.eta,
            key=envelope.key,
            workflow=envelope.workflow,
            edges=edges,
            pending=len(edges),
            run_if=envelope.run_if,
            fail_fast=envelope.fail_fast,
        )
        job.visible_at = job.earliest(now)
        job.describe(envelope, sealed.data)
        return job

    def describe(self, envelope: Envelope, data: bytes) -> None:
        """Take over what the envelope says, except what a job keeps for life."""
        if (self.queue, self.priority) != (envelope.queue, envelope.priority):
            self.turn = None
        self.data = data
        self.task = envelope.task
        self.queue = envelope.queue
        self.priority = envelope.priority
        self.expires_at = envelope.expires_at
        self.ack = envelope.ack
        self.max_deliveries = envelope.max_deliveries
        self.store_result = envelope.store_result
        self.result_ttl = envelope.result_ttl
        self.limits = envelope.limits

    def earliest(self, now: float) -> float:
        """When it may run, as far as its ``eta`` is concerned."""
        return now if self.eta is None else max(now, self.eta)

    def note(self, event: Event, now: float, detail: str = "") -> None:
        """Enter into the history how the current attempt ended."""
        entry = HistoryEntry(
            at=now,
            event=event.value,
            attempt=self.attempt,
            detail=detail[:MAX_DETAIL],
            worker=self.worker or "",
        )
        self.history = [*self.history, entry][-MAX_HISTORY:]

    def keep(self, result: Payload | None) -> None:
        """It has succeeded, and will not run again."""
        self.result = result if self.store_result else None
        self.failure = None
        self.data = b""
        for edge in self.edges.values():
            edge.result = edge.loss = None

    def begin_again(self, now: float) -> None:
        """Out of the dead letters: as new, but for its history and its place."""
        self.attempt, self.deliveries, self.reclaims, self.yields = 1, 0, 0, 0
        self.started_at = self.finished_at = self.worker = None
        self.failure = self.dead_reason = None
        self.cancel_requested = self.terminate_requested = False
        self.revoked_by = self.revoked_at = None
        self.visible_at = now

    def delivery(self) -> Delivery:
        """The delivery of the reservation that was just made."""
        results = {id: e.result for id, e in self.edges.items() if e.result is not None}
        losses = {id: e.loss for id, e in self.edges.items() if e.loss is not None}
        return Delivery(
            job_id=self.id,
            queue=self.queue,
            priority=self.priority,
            envelope=self.data,
            token=self.token,
            attempt=self.attempt,
            deliveries=self.deliveries,
            reclaims=self.reclaims,
            yields=self.yields,
            lease_until=self.lease_until or 0.0,
            parked_at=self.parked_at,
            inputs=results if self.edges else None,
            losses=losses or None,
        )

    def forfeit(self) -> None:
        """It never ran: its key has nothing to pay for."""
        if self.turn is not None:
            self.turn = self.turn._replace(key=None)

    @property
    def place(self) -> int:
        """Where it stands among ready jobs: by its turn, then in store order."""
        return self.sequence if self.turn is None else (self.turn.rank << 64) + self.sequence

    @property
    def holder(self) -> Limit | None:
        """The limit that keeps it from running."""
        return next((limit for limit in self.limits if self.held and limit.gate == self.gate), None)

    def record(self, held: Held | None = None) -> JobRecord:
        """What readers see."""
        return JobRecord(
            id=self.id,
            task=self.task,
            queue=self.queue,
            state=self.state,
            priority=self.priority,
            attempt=self.attempt,
            deliveries=self.deliveries,
            reclaims=self.reclaims,
            max_deliveries=self.max_deliveries,
            enqueued_at=self.enqueued_at,
            visible_at=self.visible_at,
            envelope=self.data,
            expires_at=self.expires_at,
            started_at=self.started_at,
            finished_at=self.finished_at,
            lease_until=self.lease_until,
            worker=self.worker,
            result=self.result,
            failure=self.failure,
            dead_reason=self.dead_reason,
            parked_reason=self.parked_reason,
            parked_at=self.parked_at,
            cancel_requested=self.cancel_requested,
            revoked_by=self.revoked_by,
            revoked_at=self.revoked_at,
            pending=self.pending,
            workflow=self.workflow,
            delegated_to=self.delegated_to,
            held=held,
            history=tuple(self.history),
        )
