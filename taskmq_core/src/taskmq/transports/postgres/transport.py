"""The port, implemented: the time, the database, and one call for each operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from taskmq.clock import Clock, SystemClock
from taskmq.documents import Document, DocumentChange
from taskmq.envelope import Sealed
from taskmq.errors import TransportUnavailable
from taskmq.records import (
    Dropped,
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
)

from . import control, query
from .caller import CallersConnection
from .database import Database
from .enqueue import enqueue
from .exchange import Exchanger
from .listener import Hub
from .options import Options, parse
from .schema import migrate_schema
from .wire import encode, replacement, texts

__all__ = ["PostgresTransport", "from_url"]

CAPABILITIES = Capabilities(
    durable=True, shared=True, transactional=True, workflows=True, workflow_pauses=True
)
BEHIND_A_POOLER = Capabilities(
    durable=True,
    shared=True,
    transactional=True,
    workflows=True,
    workflow_pauses=True,
    wakeups=False,
    limitations=(
        "pooler=transaction: no LISTEN; who waits looks at growing intervals, up to a second",
    ),
)
LONG = 60.0
"""Seconds to wait for what may take longer than a call of a worker."""
MOST, LEAST = 1000, 10
"""Jobs of each kind that maintenance is asked for at once. A worker waits for it no longer than for
any other call: where that is not enough, the next one is asked for less."""
DEAD = ("FAILED",)
FINISHED = ("SUCCEEDED", "EXPIRED", "REVOKED", "SKIPPED")

_decode = msgspec.json.Decoder().decode


def from_url(url: str, *, clock: Clock) -> PostgresTransport:
    """The store in a schema of a PostgreSQL database, which is made if it is missing.
    docs/reference/postgres.md has the options. Connects with the first call.

    Raises `ConfigError`.

    >>> from_url("postgresql://app@db/jobs?schema=queue", clock=SystemClock())
    """
    return PostgresTransport(parse(url), clock)


class PostgresTransport:
    """A `taskmq.transport.Transport` on a schema of a PostgreSQL database.

    Every operation is one statement, one round trip, one transaction. With the system's clock the
    server's time rules, so that hosts whose clocks differ agree.
    """

    def __init__(self, options: Options, clock: Clock) -> None:
        self.capabilities = BEHIND_A_POOLER if options.pooler else CAPABILITIES
        self.database = Database(options)
        self._clock = None if isinstance(clock, SystemClock) else clock
        self._exchanger = Exchanger(self.database)
        self._hub = Hub(self.database)
        self._portion = MOST

    @property
    def _now(self) -> float | None:
        return None if self._clock is None else self._clock.now()

    def _call(
        self, function: str, casts: str, *values: object, patience: float | None = None
    ) -> Any:
        """The value of one function."""
        placeholders = ", ".join(f"%s::{cast}" for cast in casts.split())
        statement = f"SELECT taskmq.{function}({placeholders})"
        return self.database.call(statement, values, patience=patience)[0][0]

    def _call_long(self, function: str, casts: str, *values: object) -> Any:
        """The same for one that people call, and that may take longer than a call of a worker."""
        return self._call(
            function, casts, *values, patience=max(LONG, self.database.options.timeout)
        )

    # -- producers ---------------------------------------------------------------------------

    def enqueue(self, sealed: Sequence[Sealed]) -> list[Enqueued]:
        return enqueue(self.database, sealed, self._now) if sealed else []

    def enqueue_within(self, sealed: Sequence[Sealed], connection: object) -> list[Enqueued]:
        if not sealed:
            return []
        self.database.prepare()  # not in the caller's transaction
        caller = CallersConnection(self.database, connection)
        return enqueue(self.database, sealed, self._now, caller.execute)

    # -- workers -----------------------------------------------------------------------------

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        if not settlements and reservation is None:
            return Exchange()
        exchanged = self._exchanger.exchange(settlements, reservation, self._now)
        if exchanged.deliveries:
            self._hub.hauls += 1
        return exchanged

    def reserve(self, reservation: Reservation) -> Sequence[Delivery]:
        return self.exchange((), reservation).deliveries

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        return self.exchange(settlements).settled

    def extend(self, deliveries: Sequence[Delivery], lease: float) -> list[LeaseStatus]:
        return query.extend(self.database, deliveries, lease, self._now) if deliveries else []

    def check(self, deliveries: Sequence[Delivery]) -> list[LeaseStatus]:
        return query.check(self.database, deliveries) if deliveries else []

    def listen(
        self, queues: Sequence[str] = (), jobs: Sequence[str] = (), kinds: Sequence[str] = ()
    ) -> Listener:
        return self._hub.listen(queues, jobs, kinds)

    # -- jobs --------------------------------------------------------------------------------

    def get(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        return query.get(self.database, job_ids) if job_ids else []

    def find(self, filter: JobFilter) -> list[JobRecord]:
        return query.find(self.database, filter)

    def revoke(
        self, job_ids: Sequence[str], *, terminate: bool = False, by: str = ""
    ) -> list[bool]:
        how = 2 if terminate else 1
        found = self._call_long(
            "revoke", "float8 text[] int text", self._now, texts(job_ids), how, by
        )
        return [job_id in set(found) for job_id in job_ids]

    def forget(self, job_ids: Sequence[str]) -> int:
        return int(self._call_long("delete_in", "text[] text[]", texts(job_ids), texts(FINISHED)))

    def stats(self, queues: Sequence[str] | None = None) -> list[QueueStats]:
        return query.stats(self.database, queues, self._now)

    def purge(self, queue: str) -> int:
        return int(self._call_long("purge", "float8 text", self._now, queue))

    # -- dead letters ------------------------------------------------------------------------

    def replay(self, job_ids: Sequence[str], envelopes: Mapping[str, Sealed]) -> list[bool]:
        new: dict[str, dict[str, Any]] = {}
        data = b""
        for job_id, sealed in envelopes.items():
            place = {"start": len(data), "length": len(sealed.data)}
            new[job_id] = {**replacement(sealed), **place}
            data += sealed.data
        values = (self._now, texts(job_ids), encode(new).decode(), data)
        left = set(self._call_long("replay", "float8 text[] json bytea", *values))
        answers = []
        for job_id in job_ids:  # named twice: replayed once
            answers.append(job_id in left)
            left.discard(job_id)
        return answers

    def bury(self, job_ids: Sequence[str]) -> int:
        return int(self._call_long("delete_in", "text[] text[]", texts(job_ids), texts(DEAD)))

    # -- workers and leaders -----------------------------------------------------------------

    def register(self, worker: WorkerRecord) -> None:
        control.register(self.database, worker)

    def deregister(self, worker_id: str) -> None:
        control.deregister(self.database, worker_id)

    def reclaim(self, worker: WorkerRecord) -> Reclaimed:
        record = control.entry_of(self.database, worker)
        if record is None:
            return Reclaimed()
        values = (self._now, worker.id, record)
        answer = _decode(self._call("reclaim_from", "float8 text text", *values))
        return Reclaimed(answer["taken"], tuple(Dropped(*each) for each in answer["dropped"]))

    def workers(self) -> list[WorkerRecord]:
        return control.workers(self.database)

    def unpark(self, tasks: Sequence[str]) -> int:
        return int(self._call("unpark", "float8 text[]", self._now, texts(tasks)))

    def acquire(self, name: str, owner: str, ttl: float) -> bool:
        return control.acquire(self.database, name, owner, ttl, self._now)

    def surrender(self, name: str, owner: str) -> bool:
        return control.surrender(self.database, name, owner, self._now)

    # -- what people decide ------------------------------------------------------------------

    def pause(self, queue: str, *, by: str, reason: str = "") -> bool:
        return control.pause(self.database, queue, by, reason, self._now)

    def resume(self, queue: str) -> bool:
        return bool(self._call("resume", "text", queue))

    def paused(self) -> list[PausedQueue]:
        return control.paused(self.database)

    def pause_workflow(self, workflow: str, *, by: str, reason: str = "") -> bool:
        types = "float8 text text text"
        return bool(self._call("pause_workflow", types, self._now, workflow, by, reason))

    def resume_workflow(self, workflow: str) -> bool:
        return bool(self._call("resume_workflow", "text", workflow))

    def paused_workflows(self) -> list[PausedWorkflow]:
        return control.paused_workflows(self.database)

    # -- documents ---------------------------------------------------------------------------

    def documents(self, kind: str, names: Sequence[str] | None = None) -> list[Document]:
        return control.documents(self.database, kind, names)

    def write(self, changes: Sequence[DocumentChange]) -> list[bool]:
        return control.write(self.database, changes) if changes else []

    # -- upkeep ------------------------------------------------------------------------------

    def maintain(self, limit: int = 1000) -> MaintenanceReport:
        statement = "SELECT taskmq.maintain(%s::float8, %s::bool, %s::int)"
        now, portion = self._now, min(limit, self._portion)
        try:
            rows = self.database.call_beside(statement, lambda alone: (now, alone, portion))
        except TransportUnavailable:
            self._portion = max(LEAST, self._portion // 4)
            raise
        self._portion = min(MOST, 2 * self._portion)
        report = _decode(rows[0][0])
        report["dropped"] = tuple(Dropped(*each) for each in report["dropped"])
        return MaintenanceReport(**report)

    def migrate_schema(self, *, check_only: bool = False) -> tuple[int | None, int, list[str]]:
        """Make the schema or bring it up to date: the version that was there (``None``: no
        schema), the one that this taskmq needs, and the files that were run, or would be.

        Raises a `taskmq.errors.TransportError`.
        """
        return migrate_schema(self.database.options, check_only=check_only)

    def close(self) -> None:
        self._hub.close()
        self.database.close()
