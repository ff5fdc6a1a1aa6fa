"""The port, implemented: the time, the server, and one script for each operation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from taskmq.clock import Clock, SystemClock
from taskmq.documents import Document, DocumentChange
from taskmq.envelope import Sealed
from taskmq.records import (
    WORKER_MEMORY,
    Dropped,
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

from . import documents, query
from .enqueue import enqueue, refusal
from .exchange import LONE, Answer, deliveries_of, is_lone, reservation_of, settlement_of
from .listener import Hub
from .options import Options, parse
from .server import Server
from .wire import Arguments, encode, encode_record, replacement_of, run_of

__all__ = ["RedisTransport", "from_url"]

CAPABILITIES = Capabilities(
    durable=True,
    shared=True,
    workflows=True,
    workflow_pauses=True,
    limitations=("jobs cannot be stored within a transaction of the caller's",),
)
STATUSES = (
    LeaseStatus.LOST,
    LeaseStatus.HELD,
    LeaseStatus.CANCEL_REQUESTED,
    LeaseStatus.TERMINATE_REQUESTED,
)
SETTLED = (Settled.DONE, Settled.REPEATED, Settled.LEASE_LOST)
PURGED_AT_ONCE = 2000
RESUMED_AT_ONCE = 2000
"""How many jobs of a purge one script deletes."""

_decode_answer = msgspec.msgpack.Decoder(Answer).decode
_decode_report = msgspec.msgpack.Decoder(
    tuple[int, int, int, int, int, int, list[tuple[str, str, str, str]]]
).decode
_decode_reclaimed = msgspec.msgpack.Decoder(tuple[int, list[tuple[str, str, str, str]]]).decode
_decode_worker = msgspec.json.Decoder(WorkerRecord).decode


def from_url(url: str, *, clock: Clock) -> RedisTransport:
    """The store of a namespace on a server. docs/reference/redis.md has the options. Nothing is
    connected before the first call.

    Raises `ConfigError`.

    >>> from_url("redis://localhost:6379/0?namespace=shop", clock=SystemClock())
    """
    return RedisTransport(parse(url), clock)


class RedisTransport:
    """A `taskmq.transport.Transport` on a Redis server.

    Every operation that changes something is one script: atomic, and one round trip. The server's
    own clock rules, unless another one than the system's is given.
    """

    capabilities = CAPABILITIES

    def __init__(self, options: Options, clock: Clock) -> None:
        self._clock = None if isinstance(clock, SystemClock) else clock
        self._server = Server(options)
        self._hub = Hub(self._server)
        self._asked: tuple[Reservation | None, str, bytes] = (None, "", b"")
        """What was reserved last without a settlement, by whom, and how that was said."""

    def _now(self) -> float | None:
        """The time, where it is not the server's."""
        return None if self._clock is None else self._clock.now()

    def _count(self, command: str, **arguments: object) -> int:
        return int(self._server.run(command, {"now": self._now(), **arguments}))

    # -- producers ---------------------------------------------------------------------------

    def enqueue(self, sealed: Sequence[Sealed]) -> list[Enqueued]:
        if not sealed:
            return []
        return enqueue(self._server, sealed, self._now())

    # -- workers -----------------------------------------------------------------------------

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        if not settlements and reservation is None:
            return Exchange()
        if is_lone(settlements, reservation):
            arguments = self._encoded(settlements, reservation)
            data, *handed = self._server.send("exchange", arguments, LONE)
        else:
            data, *handed = self._server.send("exchange", self._encoded(settlements, reservation))
        answer = _decode_answer(data)
        if answer.error:
            raise refusal(data)
        return Exchange(
            settled=[SETTLED[outcome] for outcome in answer.settled] if settlements else (),
            deliveries=deliveries_of(answer, *handed) if answer.deliveries else (),
            dropped=[Dropped(*each) for each in answer.dropped] if answer.dropped else (),
            readied=[Readied(*each) for each in answer.readied] if answer.readied else (),
            next_due_at=answer.due,
            waiting_priority=answer.waiting,
        )

    def _encoded(self, settlements: Sequence[Settlement], reservation: Reservation | None) -> bytes:
        """What an exchange sends. A worker that has nothing asks for the same each time."""
        sender, now = self._server.sender(), self._now()
        asked, before, encoded = self._asked
        if not settlements and now is None and reservation == asked and sender == before:
            return encoded
        arguments: Arguments = {"now": now}
        if settlements:
            arguments["settlements"] = [settlement_of(each) for each in settlements]
        if reservation is not None:
            arguments["reservation"] = reservation_of(reservation)
            arguments["sender"] = sender
        encoded = encode(arguments)
        if not settlements and now is None and reservation is not None:
            kept = replace(
                reservation, queues=dict(reservation.queues), quotas=dict(reservation.quotas)
            )
            self._asked = kept, sender, encoded
        return encoded

    def reserve(self, reservation: Reservation) -> Sequence[Delivery]:
        return self.exchange((), reservation).deliveries

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        return self.exchange(settlements).settled

    def extend(self, deliveries: Sequence[Delivery], lease: float) -> list[LeaseStatus]:
        if not deliveries:
            return []
        held = [(delivery.job_id, delivery.token) for delivery in deliveries]
        arguments: Arguments = {"now": self._now(), "held": held, "lease": lease}
        return [STATUSES[status] for status in self._server.run("extend", arguments)]

    def check(self, deliveries: Sequence[Delivery]) -> list[LeaseStatus]:
        return query.check(self._server, deliveries) if deliveries else []

    def listen(
        self, queues: Sequence[str] = (), jobs: Sequence[str] = (), kinds: Sequence[str] = ()
    ) -> Listener:
        names = [f"queue:{name}" for name in queues] + [f"job:{name}" for name in jobs]
        names += [f"kind:{name}" for name in kinds]
        patient = bool(kinds) and not queues and not jobs
        return self._hub.listen(map(self._server.name, names), patient=patient)

    # -- jobs --------------------------------------------------------------------------------

    def get(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        return query.get(self._server, job_ids) if job_ids else []

    def find(self, filter: JobFilter) -> list[JobRecord]:
        return query.find(self._server, filter)

    def revoke(
        self, job_ids: Sequence[str], *, terminate: bool = False, by: str = ""
    ) -> list[bool]:
        arguments: Arguments = {"now": self._now(), "ids": list(job_ids), "by": by}
        arguments["terminate"] = terminate
        return [bool(each) for each in self._server.run("revoke", arguments)]

    def forget(self, job_ids: Sequence[str]) -> int:
        return self._count("delete", ids=list(job_ids), dead=False)

    def stats(self, queues: Sequence[str] | None = None) -> list[QueueStats]:
        return query.stats(self._server, queues, self._now())

    def purge(self, queue: str) -> int:
        """In steps of some thousands, since all others wait for each: not more than waited at the
        first one."""
        return sum(self._purge(queue))

    def _purge(self, queue: str) -> Iterator[int]:
        left = limit = PURGED_AT_ONCE
        while left > 0:
            arguments: Arguments = {"now": self._now(), "queue": queue, "limit": min(limit, left)}
            count, remaining = self._server.run("purge", arguments)
            yield count
            is_first = left is limit
            left = remaining if is_first else min(left - count, remaining)

    # -- dead letters ------------------------------------------------------------------------

    def replay(self, job_ids: Sequence[str], envelopes: Mapping[str, Sealed]) -> list[bool]:
        jobs = [(job_id, *replacement_of(envelopes.get(job_id))) for job_id in job_ids]
        answers = self._server.run("replay", {"now": self._now(), "jobs": jobs})
        return [bool(each) for each in answers]

    def bury(self, job_ids: Sequence[str]) -> int:
        return self._count("delete", ids=list(job_ids), dead=True)

    # -- workers and leaders -----------------------------------------------------------------

    def register(self, worker: WorkerRecord) -> None:
        self._count(
            "register",
            id=worker.id,
            run=run_of(worker),
            record=encode_record(worker),
            started_at=worker.started_at,
            heartbeat_at=worker.heartbeat_at,
        )

    def deregister(self, worker_id: str) -> None:
        self._count("deregister", id=worker_id)

    def reclaim(self, worker: WorkerRecord) -> Reclaimed:
        arguments: Arguments = {"now": self._now(), "id": worker.id, "run": run_of(worker)}
        count, dropped = _decode_reclaimed(self._server.run("reclaim", arguments))
        return Reclaimed(count, tuple(Dropped(*each) for each in dropped))

    def workers(self) -> list[WorkerRecord]:
        entries = self._server.run("workers", {"sender": self._server.sender()})
        found = [_decode_worker(entry.partition(b"\n")[2]) for entry in entries]
        return sorted(found, key=lambda worker: worker.id)

    def unpark(self, tasks: Sequence[str]) -> int:
        return self._count("unpark", tasks=list(tasks))

    def acquire(self, name: str, owner: str, ttl: float) -> bool:
        return bool(self._count("acquire", name=name, owner=owner, ttl=ttl))

    def surrender(self, name: str, owner: str) -> bool:
        return bool(self._count("surrender", name=name, owner=owner))

    # -- what people decide ------------------------------------------------------------------

    def pause(self, queue: str, *, by: str, reason: str = "") -> bool:
        return bool(self._count("pause", queue=queue, by=by, reason=reason))

    def resume(self, queue: str) -> bool:
        return bool(self._count("resume", queue=queue))

    def paused(self) -> list[PausedQueue]:
        return query.paused(self._server)

    def pause_workflow(self, workflow: str, *, by: str, reason: str = "") -> bool:
        return bool(self._count("pause_workflow", workflow=workflow, by=by, reason=reason))

    def resume_workflow(self, workflow: str) -> bool:
        """See `taskmq.transport.WorkflowControl.resume_workflow`; in steps, as others have to wait
        meanwhile. Should this process end, a worker goes on in passing."""
        given: Arguments = {"now": self._now(), "workflow": workflow, "limit": RESUMED_AT_ONCE}
        was_paused, left = self._server.run("resume_workflow", given)
        while left:
            _, left = self._server.run("resume_workflow", given)
        return bool(was_paused)

    def paused_workflows(self) -> list[PausedWorkflow]:
        return query.paused_workflows(self._server)

    # -- documents ---------------------------------------------------------------------------

    def documents(self, kind: str, names: Sequence[str] | None = None) -> list[Document]:
        return documents.read(self._server, kind, names)

    def write(self, changes: Sequence[DocumentChange]) -> list[bool]:
        return documents.write(self._server, changes) if changes else []

    # -- upkeep ------------------------------------------------------------------------------

    def maintain(self, limit: int = 1000) -> MaintenanceReport:
        arguments: Arguments = {"now": self._now(), "limit": limit, "memory": WORKER_MEMORY}
        *counts, dropped = _decode_report(self._server.run("maintain", arguments))
        reclaimed, expired, dead, purged, keys, workers = counts
        return MaintenanceReport(
            reclaimed=reclaimed,
            expired=expired,
            dead=dead,
            purged=purged,
            keys_purged=keys,
            workers_forgotten=workers,
            dropped=tuple(Dropped(*each) for each in dropped),
        )

    def close(self) -> None:
        self._hub.close()
        self._server.close()
