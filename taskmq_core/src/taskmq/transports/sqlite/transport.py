"""The port, implemented: the time, the database, and one call for each operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from sqlite3 import Connection

import msgspec

from taskmq.clock import Clock
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
    MOST_READIED,
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
from taskmq.turns import Turns

from . import control, documents, query, registry, upkeep
from .caller import callers_connection
from .database import Database
from .enqueue import enqueue, lone_row
from .listener import Hub
from .options import Options, parse
from .reserve import look, reserve
from .rows import DEAD, FINISHED
from .settle import check, extend, settle
from .statements import ENQUEUE as SQL

__all__ = ["SqliteTransport", "from_url"]

CAPABILITIES = Capabilities(
    durable=True,
    shared=True,
    transactional=True,
    workflows=True,
    workflow_pauses=True,
    limitations=("one machine: every process needs the file on a local disk",),
)


def from_url(url: str, *, clock: Clock) -> SqliteTransport:
    """The store in a file, which is created if it is missing. docs/reference/sqlite.md has the
    options.

    Raises `ConfigError`, `StoreCorrupt`, `SchemaMismatch` or `TransportUnavailable`.

    >>> from_url("sqlite:///jobs.db?synchronous=full", clock=SystemClock())
    """
    return SqliteTransport(parse(url), clock)


class SqliteTransport:
    """A `taskmq.transport.Transport` on one SQLite file.

    Every operation that changes something is one transaction. It is durable on return against the
    end of any process, and with ``synchronous=full`` against a power failure as well.
    """

    capabilities = CAPABILITIES

    def __init__(self, options: Options, clock: Clock) -> None:
        self._clock = clock
        self._database = Database(options, clock)
        self._hub = Hub(self._database)
        self._turns = Turns()

    # -- producers ---------------------------------------------------------------------------

    def enqueue(self, sealed: Sequence[Sealed]) -> list[Enqueued]:
        if not sealed:
            return []
        now = self._clock.now()
        if len(sealed) == 1:
            row = lone_row(sealed[0], now)
            if row is not None and self._database.change(SQL["insert_alone"], row) == 1:
                return [Enqueued(sealed[0].envelope.id, True)]
        return self._database.write(enqueue, sealed, now)

    def enqueue_within(self, sealed: Sequence[Sealed], connection: object) -> list[Enqueued]:
        with callers_connection(connection, self._database.path) as caller:
            return enqueue(caller, sealed, self._clock.now()) if sealed else []

    # -- workers -----------------------------------------------------------------------------

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        now = self._clock.now()
        if not settlements:
            if reservation is None:
                return Exchange()
            # Look first: a worker that finds nothing does not write, nor wait for one who does.
            found, top = self._database.read(look, reservation)
            if not found.is_untidy(now) and (top is None or reservation.limit < 1):
                return Exchange(next_due_at=found.next_due_at, waiting_priority=top)
        return self._database.write(_exchange, self._turns, settlements, reservation, now)

    def reserve(self, reservation: Reservation) -> Sequence[Delivery]:
        return self.exchange((), reservation).deliveries

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        return self.exchange(settlements).settled

    def extend(self, deliveries: Sequence[Delivery], lease: float) -> list[LeaseStatus]:
        if not deliveries:
            return []
        return self._database.write(extend, deliveries, self._clock.now() + lease)

    def check(self, deliveries: Sequence[Delivery]) -> list[LeaseStatus]:
        return self._database.read(check, deliveries) if deliveries else []

    def listen(
        self, queues: Sequence[str] = (), jobs: Sequence[str] = (), kinds: Sequence[str] = ()
    ) -> Listener:
        """Wakes with every commit, whatever it is about: looking is cheap here."""
        return self._hub.listen()

    # -- jobs --------------------------------------------------------------------------------

    def get(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        return self._database.read(query.get, job_ids) if job_ids else []

    def find(self, filter: JobFilter) -> list[JobRecord]:
        return self._database.read(query.find, filter)

    def revoke(
        self, job_ids: Sequence[str], *, terminate: bool = False, by: str = ""
    ) -> list[bool]:
        return self._database.write(upkeep.revoke, job_ids, self._clock.now(), terminate, by)

    def forget(self, job_ids: Sequence[str]) -> int:
        return self._database.write(upkeep.delete, job_ids, FINISHED)

    def stats(self, queues: Sequence[str] | None = None) -> list[QueueStats]:
        return self._database.read(query.stats, queues, self._clock.now())

    def purge(self, queue: str) -> int:
        return self._database.write(upkeep.purge, queue, self._clock.now())

    # -- dead letters ------------------------------------------------------------------------

    def replay(self, job_ids: Sequence[str], envelopes: Mapping[str, Sealed]) -> list[bool]:
        return self._database.write(upkeep.replay, job_ids, envelopes, self._clock.now())

    def bury(self, job_ids: Sequence[str]) -> int:
        return self._database.write(upkeep.delete, job_ids, DEAD)

    # -- workers and leaders -----------------------------------------------------------------

    def register(self, worker: WorkerRecord) -> None:
        self._database.write(registry.register, worker)

    def deregister(self, worker_id: str) -> None:
        self._database.write(registry.deregister, worker_id)

    def reclaim(self, worker: WorkerRecord) -> Reclaimed:
        return self._database.write(registry.reclaim, worker, self._clock.now())

    def workers(self) -> list[WorkerRecord]:
        return self._database.read(registry.workers)

    def unpark(self, tasks: Sequence[str]) -> int:
        now = self._clock.now()
        if not self._database.read(upkeep.any_parked):
            return 0
        return self._database.write(upkeep.unpark, tasks, now)

    def acquire(self, name: str, owner: str, ttl: float) -> bool:
        now = self._clock.now()
        holder = self._database.read(registry.holder, name, now)
        if holder is not None and holder != owner:
            return False  # without writing: those who wait for leadership ask often
        return self._database.write(registry.acquire, name, owner, now, ttl)

    def surrender(self, name: str, owner: str) -> bool:
        return self._database.write(registry.surrender, name, owner, self._clock.now())

    # -- what people decide ------------------------------------------------------------------

    def pause(self, queue: str, *, by: str, reason: str = "") -> bool:
        wanted = PausedQueue(queue=queue, by=by, paused_at=self._clock.now(), reason=reason)
        return self._database.write(control.pause, wanted)

    def resume(self, queue: str) -> bool:
        return self._database.write(control.resume, queue)

    def paused(self) -> list[PausedQueue]:
        return self._database.read(control.paused)

    def pause_workflow(self, workflow: str, *, by: str, reason: str = "") -> bool:
        now = self._clock.now()
        wanted = PausedWorkflow(workflow=workflow, by=by, paused_at=now, reason=reason)
        return self._database.write(control.pause_workflow, wanted)

    def resume_workflow(self, workflow: str) -> bool:
        return self._database.write(control.resume_workflow, workflow)

    def paused_workflows(self) -> list[PausedWorkflow]:
        return self._database.read(control.paused_workflows)

    # -- documents ---------------------------------------------------------------------------

    def documents(self, kind: str, names: Sequence[str] | None = None) -> list[Document]:
        return self._database.read(documents.read, kind, names)

    def write(self, changes: Sequence[DocumentChange]) -> list[bool]:
        return self._database.write(documents.write, changes) if changes else []

    # -- upkeep ------------------------------------------------------------------------------

    def maintain(self, limit: int = 1000) -> MaintenanceReport:
        now = self._clock.now()
        report = MaintenanceReport()
        if self._database.read(upkeep.is_due, now):
            report = self._database.write(upkeep.maintain, now, limit)
        if self._database.read(upkeep.is_mostly_unused):
            self._database.write(upkeep.shrink)
        return report

    def close(self) -> None:
        self._hub.close()
        self._database.close()


def _exchange(
    connection: Connection,
    turns: Turns,
    settlements: Sequence[Settlement],
    reservation: Reservation | None,
    now: float,
) -> Exchange:
    if not settlements:
        return reserve(connection, turns, reservation, now) if reservation else Exchange()
    settled, readied = settle(connection, settlements, now)
    readied = readied[:MOST_READIED]
    if reservation is None:
        return Exchange(settled=settled, readied=readied)
    answer = reserve(connection, turns, reservation, now)
    return msgspec.structs.replace(answer, settled=settled, readied=readied)
