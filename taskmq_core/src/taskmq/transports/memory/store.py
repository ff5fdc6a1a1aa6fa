"""The tables of the memory transport, and the steps that keep them consistent."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import msgspec

from taskmq.documents import Document
from taskmq.envelope import Sealed
from taskmq.limits import concurrency_gate
from taskmq.records import PausedQueue, PausedWorkflow, WorkerRecord
from taskmq.states import TERMINAL, Event, JobState, next_state
from taskmq.transports._fair import Turn
from taskmq.transports._gates import Lane

from .fair import FairIndex
from .gates import Departure, GateIndex
from .job import Job
from .lanes import Lanes
from .listener import Signals
from .ordered import Ordered

__all__ = ["Key", "Lease", "Store"]

NEVER_RUNS = frozenset({Event.REVOKE, Event.EXPIRE})
CAN_DEPART = frozenset({JobState.QUEUED, JobState.RETRYING, JobState.RUNNING})


class Key(msgspec.Struct, frozen=True):
    """What an idempotency key stands for."""

    job_id: str
    fingerprint: bytes
    until: float


class Lease(msgspec.Struct, frozen=True):
    """Who holds a named lease, and until when."""

    owner: str
    until: float


class Store:
    """All that is stored. Not locked: the transport holds its lock around every operation."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}  # in store order
        self.dependents: dict[str, list[str]] = {}
        self.workflows: defaultdict[str, dict[str, None]] = defaultdict(dict)  # ids of their jobs
        self.lanes: defaultdict[str, Lanes] = defaultdict(Lanes)
        self.parked = Ordered[float]()  # by the end of their patience
        self.finished = Ordered[float]()  # by the end of their retention
        self.keys: dict[str, Key] = {}
        self.key_ends = Ordered[float]()
        self.workers: dict[str, WorkerRecord] = {}
        self.leases: dict[str, Lease] = {}
        self.paused: dict[str, PausedQueue] = {}
        self.paused_workflows: dict[str, PausedWorkflow] = {}
        self.documents: dict[str, dict[str, Document]] = {}
        self.gates = GateIndex()
        self.fair = FairIndex()
        self.departures: list[Departure] = []
        self.readied: list[Job] = []  # since the last exchange
        self.signals = Signals()
        self._sequence = 0
        self._token = 0

    def next_token(self) -> int:
        """Never the same twice."""
        self._token += 1
        return self._token

    def add(
        self,
        sealed: Sealed,
        now: float,
        *,
        turn: Turn | None = None,
        held: bool = False,
        gate: str | None = None,
    ) -> Job:
        """Store a job behind all others."""
        self._sequence += 1
        job = Job.new(sealed, self._sequence, now)
        job.turn, job.held, job.gate = turn, held, gate
        self.fair.enter(job)
        self.jobs[job.id] = job
        if job.workflow is not None:
            self.workflows[job.workflow][job.id] = None
        self._place(job, now)
        return job

    def move(self, job: Job, event: Event, now: float) -> None:
        """Let ``event`` happen to a job, and put it where it belongs then.

        What else the event changes (``visible_at``, counters) is set before the call.
        """
        state = next_state(job.state, event)
        if state is None:
            raise AssertionError(f"no transition from {job.state} by {event.value}")
        self._displace(job)
        if job.limits and job.state in CAN_DEPART and event is not Event.RESERVE:
            refunded = event is Event.RELEASE
            self.departures.append(Departure(job.limits, job.queue, job.priority, refunded))
        if event in NEVER_RUNS and job.state is not JobState.RUNNING:
            job.forfeit()
        job.state = state
        if state is not JobState.RUNNING:
            job.lease_until = None
        if job.limits or job.held:
            running = state is JobState.RUNNING
            job.held, job.gate = False, concurrency_gate(job.limits) if running else None
        if state in TERMINAL:
            job.finished_at = now
            job.parked_reason = job.parked_at = job.park_ttl = None
        self._place(job, now)

    def replace(self, job: Job, sealed: Sealed, now: float) -> None:
        """Give a job another envelope."""
        self._displace(job)
        if job.limits and job.state is JobState.RUNNING:
            self.departures.append(Departure(job.limits, job.queue, job.priority))
        job.held, job.gate = False, None  # which are those of its old limits
        job.describe(sealed.envelope, sealed.data)
        self._place(job, now)

    def reschedule(self, job: Job, now: float, *, visible_at: float) -> None:
        """Make a job that has not started visible at another time."""
        self._displace(job)
        job.visible_at = visible_at
        self._place(job, now)

    def hold(self, job: Job, gate: str, now: float) -> None:
        """Keep a job that could run behind a gate."""
        self._displace(job)
        job.held, job.gate = True, gate
        self._place(job, now)

    def let_go(self, lane: Lane, now: float, visible_at: float | None) -> None:
        """Let the first job of a lane stand for it."""
        job = self.jobs[self.gates.held[lane].peek()]
        self._displace(job)
        job.held = False
        job.visible_at = job.visible_at if visible_at is None else visible_at
        self._place(job, now)

    def open(self, gate: str, now: float) -> None:
        """Give all that is held behind a gate its place among the ready back."""
        for lane in list(self.gates.lanes.get(gate, ())):
            for job in [self.jobs[job_id] for job_id in self.gates.held[lane]]:
                self._displace(job)
                job.held, job.gate = False, None
                self._place(job, now)

    def extend(self, job: Job, lease_until: float) -> None:
        """Let the lease of a running job end at another time."""
        job.lease_until = lease_until
        self.lanes[job.queue].leased.put(job.id, lease_until)

    def delete(self, job: Job) -> None:
        """Forget a job."""
        self._displace(job)
        del self.jobs[job.id]
        self.dependents.pop(job.id, None)
        if job.workflow is not None:
            del self.workflows[job.workflow][job.id]
            if not self.workflows[job.workflow]:
                del self.workflows[job.workflow]
                self.paused_workflows.pop(job.workflow, None)
        self.signals.job_ended(job.id)

    def free_key(self, job: Job) -> None:
        """Let the key of a job stand for it no longer."""
        key = None if job.key is None else self.keys.get(job.key)
        if job.key is not None and key is not None and key.job_id == job.id:
            del self.keys[job.key]
            self.key_ends.discard(job.key)

    def is_ready(self, job: Job) -> bool:
        """Whether a job stands among those that can be reserved."""
        line = self.lanes[job.queue].ready.get(job.priority)
        return line is not None and job.id in line

    def promote(self, queues: Iterable[str], now: float, limit: int | None = None) -> None:
        """Make due jobs ready: all of them, or the first ``limit`` of each queue."""
        for queue in queues:
            for job_id in self.lanes[queue].delayed.due((now, math.inf), limit):
                self.lanes[queue].place(self.jobs[job_id], now)

    def _place(self, job: Job, now: float) -> None:
        self.lanes[job.queue].place(job, now)
        if job.gate is not None:
            self.gates.place(job)
        if job.state is JobState.QUEUED and job.parked_at is not None:
            self.parked.put(job.id, job.parked_at + (job.park_ttl or 0.0))
        if job.state not in TERMINAL:
            self.signals.queue_changed(job.queue)
            return
        if job.state is not JobState.FAILED:
            self.finished.put(job.id, (job.finished_at or now) + job.result_ttl)
        self.signals.job_ended(job.id)

    def _displace(self, job: Job) -> None:
        self.lanes[job.queue].remove(job)
        if job.gate is not None:
            self.gates.remove(job)
        self.parked.discard(job.id)
        self.finished.discard(job.id)
