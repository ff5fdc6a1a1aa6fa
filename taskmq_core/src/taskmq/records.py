"""What a store knows, as values: jobs, queues, workers, failures."""

from __future__ import annotations

from typing import Any

import msgspec

from .codec import Payload
from .limits import Limit
from .states import JobState

__all__ = [
    "WORKER_MEMORY",
    "Dropped",
    "Failure",
    "Held",
    "HistoryEntry",
    "JobFilter",
    "JobRecord",
    "Loss",
    "LostJob",
    "MaintenanceReport",
    "PausedQueue",
    "ProcessMark",
    "QueueStats",
    "Readied",
    "Reclaimed",
    "WorkerRecord",
]

WORKER_MEMORY = 86_400.0
"""Seconds of silence after which `maintain` drops a worker's entry."""


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why an attempt, or a job, failed. Text only: nothing in it is ever looked up or called."""

    type: str
    """Qualified name of the exception class, e.g. ``builtins.ValueError``."""
    message: str = ""
    traceback: str = ""
    args: tuple[str, ...] = ()
    """``repr`` of each of the exception's arguments."""


class Loss(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a job ended that another waited for, if not by succeeding."""

    state: str
    """One of `taskmq.states.JobState`; UNKNOWN if it was deleted."""
    reason: str = ""
    """Of a dead letter."""
    failure: Failure | None = None


class LostJob(Loss, frozen=True, kw_only=True):
    """What a task gets as an argument in place of the result of a job that did not succeed."""

    job_id: str


class HistoryEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line about an attempt that did not succeed. A store keeps the newest 20 a job."""

    at: float
    event: str
    attempt: int
    detail: str = ""
    worker: str = ""


class Held(msgspec.Struct, frozen=True, kw_only=True):
    """Why a job that could run is kept from it."""

    limit: Limit
    """The one of its limits that is reached."""
    running: int = 0
    """How many jobs run under a concurrency limit with its key."""


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job as its store has it. Instants are epoch seconds."""

    id: str
    task: str
    queue: str
    state: JobState
    priority: int
    attempt: int
    """The attempt that is running or comes next, from 1; raised by retries."""
    deliveries: int
    """Deliveries that count: raised by reserve, lowered by release and defer."""
    reclaims: int
    """Deliveries lost to a dead or silent worker; its ceiling is ``max_deliveries``."""
    max_deliveries: int
    enqueued_at: float
    visible_at: float
    """When it is reservable; meaningful in QUEUED and RETRYING."""
    envelope: bytes
    """As the producer wrote it; empty once a success was settled."""
    expires_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    lease_until: float | None = None
    worker: str | None = None
    """Who holds it, or had it last."""
    result: Payload | None = None
    failure: Failure | None = None
    dead_reason: str | None = None
    """Set while the job is in the dead letters: max_attempts, error, worker_lost, malformed, …"""
    parked_reason: str | None = None
    """Set while the job waits for a worker that can run it."""
    parked_at: float | None = None
    cancel_requested: bool = False
    revoked_by: str | None = None
    """Who revoked it first, for people; also while it still runs (``cancel_requested``). ``None``
    if nobody did."""
    revoked_at: float | None = None
    """When that was."""
    pending: int = 0
    """Dependencies that have not succeeded yet."""
    workflow: str | None = None
    delegated_to: str | None = None
    """The job whose result is to be its own; it does not run again."""
    held: Held | None = None
    """Set while one of its limits keeps it from running."""
    history: tuple[HistoryEntry, ...] = ()


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs to find; every field that is given must match. Newest last, by store order."""

    states: tuple[JobState, ...] = ()
    queue: str | None = None
    task: str | None = None
    dead: bool | None = None
    """``True``: only dead letters."""
    parked: bool | None = None
    key: str | None = None
    """Jobs that were submitted with this idempotency key."""
    workflow: str | None = None
    stopping: bool | None = None
    """``True``: only jobs that were asked to stop (``cancel_requested``)."""
    revoked: bool | None = None
    """``True``: only jobs that somebody revoked (``revoked_at``), whatever became of them."""
    ids: tuple[str, ...] = ()
    after: str | None = None
    """Continue behind this job id (paging); nothing follows an id that the store does not know."""
    limit: int = 100


class QueueStats(msgspec.Struct, frozen=True, kw_only=True):
    """Depth of one queue, now. ``ready_by_priority`` has only the priorities that occur."""

    queue: str
    ready: int = 0
    delayed: int = 0
    running: int = 0
    waiting: int = 0
    parked: int = 0
    """Of ``delayed``: those waiting for a worker that can run them."""
    held: int = 0
    """Those that could run, but are kept from it by a limit."""
    dead: int = 0
    oldest_ready_at: float | None = None
    """The earliest ``visible_at`` of the ready ones."""
    ready_by_priority: dict[int, int] = {}


class PausedQueue(msgspec.Struct, frozen=True, kw_only=True):
    """A queue that nobody reserves from, and who wanted that."""

    queue: str
    by: str
    """For people; the app and the command line say ``user@host``."""
    paused_at: float
    reason: str = ""


class PausedWorkflow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow of which nothing more is begun, and who wanted that."""

    workflow: str
    by: str
    """For people; the handle and the command line say ``user@host``."""
    paused_at: float
    reason: str = ""


class ProcessMark(msgspec.Struct, frozen=True, kw_only=True):
    """What tells a process from every other one that ever had its number. Two marks with the same
    ``boot`` and ``namespaces`` are of processes that can see each other."""

    boot: str
    """Of the machine's last start."""
    namespaces: str
    """In which the number and the start mean anything: two containers have different ones."""
    started: int
    """When the process began, in ticks since the boot."""


class WorkerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A worker as it last described itself."""

    id: str
    queues: tuple[str, ...]
    pool: str
    concurrency: int
    started_at: float
    heartbeat_at: float
    heartbeat_interval: float
    host: str = ""
    pid: int = 0
    process: ProcessMark | None = None
    """``None`` where the system cannot say, and while two workers share the name."""
    running: int = 0
    processed: int = 0
    tasks: tuple[str, ...] = ()
    meta: dict[str, Any] = {}

    def is_stale(self, now: float) -> bool:
        """Whether it has been silent for longer than three heartbeats, and at least 30 s."""
        return now - self.heartbeat_at > max(3 * self.heartbeat_interval, 30.0)

    def is_same_run(self, other: WorkerRecord) -> bool:
        """Whether both describe the same worker in the same process, however long ago."""
        mine = (self.id, self.started_at, self.pid, self.process)
        return mine == (other.id, other.started_at, other.pid, other.process)

    def is_superseded_by(self, other: WorkerRecord) -> bool:
        """Whether the other is of a later start and was written later: then this is the last word
        of a predecessor, held up on its way."""
        return other.started_at > self.started_at and other.heartbeat_at > self.heartbeat_at


class Dropped(msgspec.Struct, frozen=True):
    """A job that ended in the store, without a settlement. ``reason`` is ``expired``, ``revoked``
    (its worker was lost after it had been asked to stop), or what a dead letter has."""

    job_id: str
    task: str
    queue: str
    reason: str


class Readied(msgspec.Struct, frozen=True, gc=False):
    """A job that waits for no other one any more, and where it is; ``visible_at`` may be later."""

    job_id: str
    queue: str
    priority: int
    visible_at: float


class Reclaimed(msgspec.Struct, frozen=True):
    """What was taken back from a worker: ``count`` jobs, of which ``dropped`` ended so."""

    count: int = 0
    dropped: tuple[Dropped, ...] = ()


class MaintenanceReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one `maintain` did. ``reclaimed`` counts every lease taken back, whatever became of the
    job; ``dead`` the dead letters made, of either kind. ``dropped`` are the jobs that ended so, in
    no particular order; those that were skipped because of them are not among them."""

    reclaimed: int = 0
    expired: int = 0
    dead: int = 0
    purged: int = 0
    keys_purged: int = 0
    workers_forgotten: int = 0
    """Entries of the registry that were silent for a day."""
    dropped: tuple[Dropped, ...] = ()
