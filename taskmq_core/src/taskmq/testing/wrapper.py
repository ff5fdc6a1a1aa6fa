"""A transport around another: where tests look at, or interfere with, what goes to the store."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from taskmq.documents import Document, DocumentChange
from taskmq.envelope import Sealed
from taskmq.records import (
    JobFilter,
    JobRecord,
    MaintenanceReport,
    PausedQueue,
    PausedWorkflow,
    QueueStats,
    Reclaimed,
    WorkerRecord,
)
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
    Transport,
)

__all__ = ["TransportWrapper"]

R = TypeVar("R")


class TransportWrapper:
    """A whole `taskmq.transport.Transport` that passes every call on to ``inner``.

    Subclass it and override `around`, which every operation goes through, or single operations.

    >>> class Counting(TransportWrapper):
    ...     calls = 0
    ...     def around(self, operation, call):
    ...         self.calls += 1
    ...         return call()
    """

    def __init__(self, inner: Transport) -> None:
        self.inner = inner

    def around(self, operation: str, call: Callable[[], R]) -> R:
        """Do one operation, named as its method; ``call`` does it in the inner transport."""
        return call()

    @property
    def capabilities(self) -> Capabilities:
        return self.inner.capabilities

    # -- jobs to and from workers --------------------------------------------------------------

    def enqueue(self, sealed: Sequence[Sealed]) -> list[Enqueued]:
        return self.around("enqueue", lambda: self.inner.enqueue(sealed))

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        return self.around("exchange", lambda: self.inner.exchange(settlements, reservation))

    def reserve(self, reservation: Reservation) -> Sequence[Delivery]:
        return self.around("reserve", lambda: self.inner.reserve(reservation))

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        return self.around("settle", lambda: self.inner.settle(settlements))

    def extend(self, deliveries: Sequence[Delivery], lease: float) -> list[LeaseStatus]:
        return self.around("extend", lambda: self.inner.extend(deliveries, lease))

    def check(self, deliveries: Sequence[Delivery]) -> list[LeaseStatus]:
        return self.around("check", lambda: self.inner.check(deliveries))

    def listen(
        self, queues: Sequence[str] = (), jobs: Sequence[str] = (), kinds: Sequence[str] = ()
    ) -> Listener:
        return self.around("listen", lambda: self.inner.listen(queues, jobs, kinds))

    # -- what is stored ------------------------------------------------------------------------

    def get(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        return self.around("get", lambda: self.inner.get(job_ids))

    def find(self, filter: JobFilter) -> list[JobRecord]:
        return self.around("find", lambda: self.inner.find(filter))

    def revoke(
        self, job_ids: Sequence[str], *, terminate: bool = False, by: str = ""
    ) -> list[bool]:
        return self.around("revoke", lambda: self.inner.revoke(job_ids, terminate=terminate, by=by))

    def forget(self, job_ids: Sequence[str]) -> int:
        return self.around("forget", lambda: self.inner.forget(job_ids))

    def stats(self, queues: Sequence[str] | None = None) -> list[QueueStats]:
        return self.around("stats", lambda: self.inner.stats(queues))

    def purge(self, queue: str) -> int:
        return self.around("purge", lambda: self.inner.purge(queue))

    def replay(self, job_ids: Sequence[str], envelopes: Mapping[str, Sealed]) -> list[bool]:
        return self.around("replay", lambda: self.inner.replay(job_ids, envelopes))

    def bury(self, job_ids: Sequence[str]) -> int:
        return self.around("bury", lambda: self.inner.bury(job_ids))

    # -- workers, leaders, upkeep --------------------------------------------------------------

    def register(self, worker: WorkerRecord) -> None:
        self.around("register", lambda: self.inner.register(worker))

    def deregister(self, worker_id: str) -> None:
        self.around("deregister", lambda: self.inner.deregister(worker_id))

    def reclaim(self, worker: WorkerRecord) -> Reclaimed:
        return self.around("reclaim", lambda: self.inner.reclaim(worker))

    def workers(self) -> list[WorkerRecord]:
        return self.around("workers", lambda: self.inner.workers())

    def unpark(self, tasks: Sequence[str]) -> int:
        return self.around("unpark", lambda: self.inner.unpark(tasks))

    def acquire(self, name: str, owner: str, ttl: float) -> bool:
        return self.around("acquire", lambda: self.inner.acquire(name, owner, ttl))

    def surrender(self, name: str, owner: str) -> bool:
        return self.around("surrender", lambda: self.inner.surrender(name, owner))

    def pause(self, queue: str, *, by: str, reason: str = "") -> bool:
        return self.around("pause", lambda: self.inner.pause(queue, by=by, reason=reason))

    def resume(self, queue: str) -> bool:
        return self.around("resume", lambda: self.inner.resume(queue))

    def paused(self) -> list[PausedQueue]:
        return self.around("paused", lambda: self.inner.paused())

    def pause_workflow(self, workflow: str, *, by: str, reason: str = "") -> bool:
        return self.around(
            "pause_workflow", lambda: self.inner.pause_workflow(workflow, by=by, reason=reason)
        )

    def resume_workflow(self, workflow: str) -> bool:
        return self.around("resume_workflow", lambda: self.inner.resume_workflow(workflow))

    def paused_workflows(self) -> list[PausedWorkflow]:
        return self.around("paused_workflows", lambda: self.inner.paused_workflows())

    def documents(self, kind: str, names: Sequence[str] | None = None) -> list[Document]:
        return self.around("documents", lambda: self.inner.documents(kind, names))

    def write(self, changes: Sequence[DocumentChange]) -> list[bool]:
        return self.around("write", lambda: self.inner.write(changes))

    def maintain(self, limit: int = 1000) -> MaintenanceReport:
        return self.around("maintain", lambda: self.inner.maintain(limit))

    def close(self) -> None:
        self.inner.close()
