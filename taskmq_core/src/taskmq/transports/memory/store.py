"""The tables of the memory transport, and the steps that keep them consistent."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from taskmq.envelope import Sealed
from taskmq.records import WorkerRecord
from taskmq.states import TERMINAL, Event, JobState, next_state

from .job import Job
from .lanes import Lanes
from .listener import Signals
from .ordered import Ordered

__all__ = ["Key", "Lease", "Store"]


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
        self.lanes: defaultdict[str, Lanes] = defaultdict(Lanes)
        self.parked = Ordered()  # by the end of their patience
        self.finished = Ordered()  # by the end of their retention
        self.keys: dict[str, Key] = {}
        self.key_ends = Ordered()
        self.workers: dict[str, WorkerRecord] = {}
        self.leases: dict[str, Lease] = {}
        self.signals = Signals()
        self._sequence = 0
        self._token = 0

    def next_token(self) -> int:
        """Never the same twice."""
        self._token += 1
        return self._token

    def add(self, sealed: Sealed, now: float) -> Job:
        """Store a job behind all others."""
        self._sequence += 1
        job = Job.new(sealed, self._sequence, now)
        self.jobs[job.id] = job
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
        job.state = state
        if state is not JobState.RUNNING:
            job.lease_until = None
        if state in TERMINAL:
            job.finished_at = now
            job.parked_reason = job.parked_at = job.park_ttl = None
        self._place(job, now)

    def replace(self, job: Job, sealed: Sealed, now: float) -> None:
        """Give a job another envelope."""
        self._displace(job)
        job.describe(sealed.envelope, sealed.data)
        self._place(job, now)

    def reschedule(self, job: Job, now: float, *, visible_at: float) -> None:
        """Make a job that has not started visible at another time."""
        self._displace(job)
        job.visible_at = visible_at
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
        self.signals.job_ended(job.id)

    def free_key(self, job: Job) -> None:
        """Let the key of a job stand for it no longer."""
        key = None if job.key is None else self.keys.get(job.key)
        if job.key is not None and key is not None and key.job_id == job.id:
            del self.keys[job.key]
            self.key_ends.discard(job.key)

    def promote(self, queues: Iterable[str], now: float) -> None:
        """Make due jobs ready."""
        for queue in queues:
            for job_id in self.lanes[queue].delayed.due(now):
                self.lanes[queue].place(self.jobs[job_id], now)

    def _place(self, job: Job, now: float) -> None:
        self.lanes[job.queue].place(job, now)
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
        self.parked.discard(job.id)
        self.finished.discard(job.id)
