"""The port, implemented: a lock, the time, and one call for each operation."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Concatenate, ParamSpec, TypeVar

from taskmq.clock import Clock
from taskmq.documents import Document, DocumentChange
from taskmq.envelope import Sealed
from taskmq.errors import ConfigError
from taskmq.records import (
    JobFilter,
    JobRecord,
    MaintenanceReport,
    PausedQueue,
    PausedWorkflow,
    QueueStats,
    Readied,
    Reclaimed,
    WorkerRecord,
)
from taskmq.states import TERMINAL, Event, JobState
from taskmq.transport import (
    Capabilities,
    Delivery,
    Enqueued,
    Exchange,
    LeaseStatus,
    Listener,
    Reservation,
    Settled,
    Settlement,
)
from taskmq.transports._gates import pause_gate
from taskmq.turns import Turns

from . import dependencies, endings, upkeep
from .enqueue import enqueue
from .gates import refill
from .listener import MemoryListener
from .reserve import (
    dropped_of,
    open_queues,
    reclaim_from,
    reserve,
    respect_pauses,
    tidy,
    top_priority,
)
from .settle import check_new_jobs, settle
from .store import Lease, Store

__all__ = ["MemoryTransport", "from_url"]

P = ParamSpec("P")
R = TypeVar("R")

CAPABILITIES = Capabilities(
    durable=False,
    shared=False,
    workflows=True,
    workflow_pauses=True,
    limitations=("jobs live in this process and are lost with it",),
)


def from_url(url: str, *, clock: Clock) -> MemoryTransport:
    """A new, empty store. Raises `ConfigError` if the URL says more than ``memory://``."""
    if url.partition("://")[2].strip("/"):
        raise ConfigError(f"{url!r}: a memory store has no name or options; write memory://")
    return MemoryTransport(clock)


def _atomic(
    method: Callable[Concatenate[MemoryTransport, P], R],
) -> Callable[Concatenate[MemoryTransport, P], R]:
    """Run a method under the lock: other threads see all of its effects or none."""

    @functools.wraps(method)
    def locked(self: MemoryTransport, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self._lock:
            answer = method(self, *args, **kwargs)
            if self._store.departures:
                refill(self._store, self._clock.now())
            return answer

    return locked


class MemoryTransport:
    """A `taskmq.transport.Transport` for one process.

    >>> transport = MemoryTransport(SystemClock())
    >>> transport.stats()
    []
    """

    capabilities = CAPABILITIES

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._store = Store()
        self._turns = Turns()

    # -- producers ---------------------------------------------------------------------------

    @_atomic
    def enqueue(self, sealed: Sequence[Sealed]) -> list[Enqueued]:
        return enqueue(self._store, sealed, self._clock.now())

    # -- workers -----------------------------------------------------------------------------

    @_atomic
    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        store, now = self._store, self._clock.now()
        check_new_jobs(store, settlements, now)
        store.readied.clear()
        settled = [settle(store, settlement, now) for settlement in settlements]
        readied = [
            Readied(job.id, job.queue, job.priority, job.visible_at)
            for job in store.readied
            if job.state is JobState.QUEUED
        ]
        if reservation is None:
            return Exchange(settled=settled, readied=readied)
        refill(store, now)
        reservation = respect_pauses(store, reservation)
        queues = reservation.queues
        dropped = tidy(store, queues, now)
        refill(store, now)
        deliveries = reserve(store, self._turns, reservation, now)
        dues = (store.lanes[queue].next_due_at() for queue in queues)
        due = min((at for at in dues if at is not None), default=None)
        return Exchange(
            settled=settled,
            deliveries=deliveries,
            dropped=dropped,
            readied=readied,
            next_due_at=None if due is None else max(due, now),
            waiting_priority=top_priority(store, open_queues(reservation, deliveries)),
        )

    def reserve(self, reservation: Reservation) -> Sequence[Delivery]:
        return self.exchange((), reservation).deliveries

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        return self.exchange(settlements).settled

    @_atomic
    def extend(self, deliveries: Sequence[Delivery], lease: float) -> list[LeaseStatus]:
        lease_until = self._clock.now() + lease
        return [self._extend(delivery, lease_until) for delivery in deliveries]

    def _extend(self, delivery: Delivery, lease_until: float) -> LeaseStatus:
        status = self._check(delivery)
        if status is not LeaseStatus.LOST:
            self._store.extend(self._store.jobs[delivery.job_id], lease_until)
        return status

    @_atomic
    def check(self, deliveries: Sequence[Delivery]) -> list[LeaseStatus]:
        return [self._check(delivery) for delivery in deliveries]

    def _check(self, delivery: Delivery) -> LeaseStatus:
        job = self._store.jobs.get(delivery.job_id)
        if job is None or job.state is not JobState.RUNNING or job.token != delivery.token:
            return LeaseStatus.LOST
        if job.terminate_requested:
            return LeaseStatus.TERMINATE_REQUESTED
        return LeaseStatus.CANCEL_REQUESTED if job.cancel_requested else LeaseStatus.HELD

    @_atomic
    def listen(
        self, queues: Sequence[str] = (), jobs: Sequence[str] = (), kinds: Sequence[str] = ()
    ) -> Listener:
        listener = MemoryListener(queues, jobs, kinds, self._stop_listening)
        self._store.signals.subscribe(listener)
        return listener

    @_atomic
    def _stop_listening(self, listener: MemoryListener) -> None:
        self._store.signals.unsubscribe(listener)

    # -- jobs --------------------------------------------------------------------------------

    @_atomic
    def get(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        found = (self._store.jobs.get(job_id) for job_id in job_ids)
        return [upkeep.record_of(self._store, job) if job else None for job in found]

    @_atomic
    def find(self, filter: JobFilter) -> list[JobRecord]:
        return [upkeep.record_of(self._store, job) for job in upkeep.find(self._store, filter)]

    @_atomic
    def revoke(
        self, job_ids: Sequence[str], *, terminate: bool = False, by: str = ""
    ) -> list[bool]:
        now = self._clock.now()
        found = [self._store.jobs.get(job_id) for job_id in job_ids]
        answers = [job is not None and job.state not in TERMINAL for job in found]
        wanted = {job.id: job for job in found if job is not None and job.state not in TERMINAL}
        endings.revoke_all(self._store, wanted.values(), now, by=by, terminate=terminate)
        return answers

    @_atomic
    def forget(self, job_ids: Sequence[str]) -> int:
        return self._delete(job_ids, TERMINAL - {JobState.FAILED})

    @_atomic
    def stats(self, queues: Sequence[str] | None = None) -> list[QueueStats]:
        names = sorted(set(self._store.lanes if queues is None else queues))
        self._store.promote(names, self._clock.now())
        every = [upkeep.stats_of(self._store, name) for name in names]
        return [s for s in every if queues is not None or s != QueueStats(queue=s.queue)]

    @_atomic
    def purge(self, queue: str) -> int:
        lanes, now = self._store.lanes[queue], self._clock.now()
        ids = [*lanes.delayed, *lanes.held, *(id for line in lanes.ready.values() for id in line)]
        for job_id in ids:
            job = self._store.jobs[job_id]
            endings.discard(self._store, job, now)
            self._store.free_key(job)
        return len(ids)

    # -- dead letters ------------------------------------------------------------------------

    @_atomic
    def replay(self, job_ids: Sequence[str], envelopes: Mapping[str, Sealed]) -> list[bool]:
        now = self._clock.now()
        return [self._replay(job_id, envelopes.get(job_id), now) for job_id in job_ids]

    def _replay(self, job_id: str, envelope: Sealed | None, now: float) -> bool:
        job = self._store.jobs.get(job_id)
        if job is None or job.state is not JobState.FAILED:
            return False
        if envelope is not None:
            self._store.replace(job, envelope, now)
        job.note(Event.REPLAY, now)
        job.begin_again(now)
        self._store.move(job, Event.REPLAY, now)
        dependencies.restore(self._store, job, now)
        return True

    @_atomic
    def bury(self, job_ids: Sequence[str]) -> int:
        return self._delete(job_ids, frozenset({JobState.FAILED}))

    def _delete(self, job_ids: Sequence[str], states: frozenset[JobState]) -> int:
        now, deleted = self._clock.now(), 0
        for job_id in job_ids:
            job = self._store.jobs.get(job_id)
            if job is not None and job.state in states:
                endings.discard(self._store, job, now)
                deleted += 1
        return deleted

    # -- workers and leaders -----------------------------------------------------------------

    @_atomic
    def register(self, worker: WorkerRecord) -> None:
        entry = self._store.workers.get(worker.id)
        if entry is None or not worker.is_superseded_by(entry):
            self._store.workers[worker.id] = worker

    @_atomic
    def deregister(self, worker_id: str) -> None:
        self._store.workers.pop(worker_id, None)

    @_atomic
    def reclaim(self, worker: WorkerRecord) -> Reclaimed:
        entry = self._store.workers.get(worker.id)
        if entry is None or not entry.is_same_run(worker):
            return Reclaimed()
        del self._store.workers[worker.id]
        taken = reclaim_from(self._store, worker.id, self._clock.now())
        return Reclaimed(len(taken), tuple(dropped_of(taken)))

    @_atomic
    def workers(self) -> list[WorkerRecord]:
        return [worker for _, worker in sorted(self._store.workers.items())]

    @_atomic
    def unpark(self, tasks: Sequence[str]) -> int:
        now, wanted = self._clock.now(), frozenset(tasks)
        parked = [self._store.jobs[id] for id in self._store.parked]
        chosen = [job for job in parked if job.task in wanted and job.visible_at > now]
        for job in chosen:
            self._store.reschedule(job, now, visible_at=now)
        return len(chosen)

    @_atomic
    def acquire(self, name: str, owner: str, ttl: float) -> bool:
        now, held = self._clock.now(), self._store.leases.get(name)
        if held is not None and held.owner != owner and now < held.until:
            return False
        self._store.leases[name] = Lease(owner, now + ttl)
        return True

    @_atomic
    def surrender(self, name: str, owner: str) -> bool:
        held = self._store.leases.get(name)
        if held is None or held.owner != owner or held.until <= self._clock.now():
            return False
        del self._store.leases[name]
        return True

    @_atomic
    def pause(self, queue: str, *, by: str, reason: str = "") -> bool:
        if queue in self._store.paused:
            return False
        pause = PausedQueue(queue=queue, by=by, paused_at=self._clock.now(), reason=reason)
        self._store.paused[queue] = pause
        return True

    @_atomic
    def resume(self, queue: str) -> bool:
        if self._store.paused.pop(queue, None) is None:
            return False
        self._store.signals.queue_changed(queue)
        return True

    @_atomic
    def paused(self) -> list[PausedQueue]:
        return [pause for _, pause in sorted(self._store.paused.items())]

    @_atomic
    def pause_workflow(self, workflow: str, *, by: str, reason: str = "") -> bool:
        store = self._store
        if workflow in store.paused_workflows or workflow not in store.workflows:
            return False
        now = self._clock.now()
        pause = PausedWorkflow(workflow=workflow, by=by, paused_at=now, reason=reason)
        store.paused_workflows[workflow] = pause
        return True

    @_atomic
    def resume_workflow(self, workflow: str) -> bool:
        if self._store.paused_workflows.pop(workflow, None) is None:
            return False
        self._store.open(pause_gate(workflow), self._clock.now())
        return True

    @_atomic
    def paused_workflows(self) -> list[PausedWorkflow]:
        return [pause for _, pause in sorted(self._store.paused_workflows.items())]

    @_atomic
    def documents(self, kind: str, names: Sequence[str] | None = None) -> list[Document]:
        found = self._store.documents.get(kind, {})
        return [found[name] for name in sorted(found if names is None else {*names} & {*found})]

    @_atomic
    def write(self, changes: Sequence[DocumentChange]) -> list[bool]:
        return [self._write(change) for change in changes]

    def _write(self, change: DocumentChange) -> bool:
        documents = self._store.documents.setdefault(change.kind, {})
        found = documents.get(change.name)
        if (found.revision if found else None) != change.expected:
            return False
        if change.data is None:
            documents.pop(change.name, None)
        else:
            documents[change.name] = Document(
                kind=change.kind, name=change.name, data=change.data, revision=change.revision
            )
        self._store.signals.documents_changed(change.kind)
        return True

    # -- upkeep ------------------------------------------------------------------------------

    @_atomic
    def maintain(self, limit: int = 1000) -> MaintenanceReport:
        return upkeep.maintain(self._store, self._clock.now(), limit)

    def close(self) -> None:
        """Nothing to release: the store lives as long as this object."""
