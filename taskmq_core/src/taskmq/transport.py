"""The transport port: what a store must do, in small protocols, batch-first.

Every operation takes and returns sequences and is atomic as a whole: one round trip, one
transaction or one script, whatever the batch's size. A failed operation raises one of
`taskmq.errors.TransportError` and has changed nothing. All methods are blocking, safe to call
from several threads at once, and take the time from the transport's `Clock`.

The promises behind the signatures, each checked by ``taskmq.testing.conformance``:

* at most one holder of a job at a time; a job is reservable again once its lease has run out;
* a settled job is never delivered again, and settling twice changes nothing;
* counters are raised, durably, before the worker sees the delivery;
* strict priority over all queues asked for, FIFO within one queue and priority, weighted turns
  between queues whose heads have the same priority;
* state, result, dead letter, workflow progress and acknowledgement are one atomic step;
* an error never pretends success.

Details that all stores decide alike:

* *Order.* Within one exchange, settlements come first, in their order, then housekeeping, then
  the reservation. A settlement counts although its lease has run out, unless someone reserved or
  took back the job since; so does `Reserver.extend`.
* *Place.* A job keeps its place in the store's sequence for life: delayed, retried, released,
  reclaimed and replayed jobs do not queue up again at the end.
* *Visibility.* ``visible_at`` is the later of now and ``eta`` at enqueue and when dependencies
  are met; now + delay after `RetryLater`, `Nack`, `Defer`; now after unpark and replay; the lease's
  end after a reclaim, or now if that is earlier; unchanged by `Release`. A job is reservable from
  ``visible_at`` on, expired from ``expires_at`` on, and a lease is over from ``lease_until`` on:
  each instant included.
* *Together.* Housekeeping takes back ended leases first and drops expired jobs then. Jobs that
  expire in one step, or are revoked in one call, all end so, although one may wait for another.
* *Stopping.* A running job that was revoked never goes back to its queue: a retry, nack, defer,
  release or reclaim makes it REVOKED. A success stays a success.
* *Repeating.* A settlement of the kind that took effect, with its token, is ``REPEATED`` until
  the job is reserved again; another kind is ``LEASE_LOST``, as is any for a deleted job. Tokens
  of a job are never used twice, not after a replay either.
* *Parking.* ``parked_reason`` and ``parked_at`` stay from the first park until the delivery ends
  in any other way than a further park, or the job ends.
* *Failure.* ``JobRecord.failure`` is that of the last attempt that reported one; a success and a
  replay clear it; a dead letter that nobody reported (worker_lost, parked too long) leaves it.
* *History.* One entry each for a retry, nack, reclaim, death and replay; ``event`` is the value of
  the `taskmq.states.Event`, ``attempt`` the one that ended, ``detail`` what is known in words (the
  reason, for a death). A nack or reclaim that is the last straw is entered as the death alone;
  one that ends a job asked to stop is not entered, nor is any other revocation or expiry.
* *Dependencies.* ``pending`` counts distinct jobs. A job whose dependency has failed already is
  stored SKIPPED. A dependency that is unknown is refused (`UnknownDependency`). Deleting a job
  that others wait for (`purge`) skips them. What dependencies hand over belongs to the dependent:
  it outlives them and any retention, until the dependent succeeded or is deleted, so that it is
  there for a reclaim, a replay, and a dependent that waits again. After a replay, one waits again
  only if none of its other dependencies is lost.
* *Conditions.* `Envelope.run_if` says when a job with dependencies runs. It decides when the last
  of them has ended; with ``succeeded``, at the first one that is lost. A replayed dead letter is
  awaited again by whoever still waits, and by those that were skipped because of it.
* *Failing fast.* Where a job with ``Envelope.fail_fast`` becomes FAILED or EXPIRED, all others of
  its workflow are revoked in the same step (``revoked_by`` ``workflow``), except those whose
  ``run_if`` is not ``succeeded``. Those that wait for it are SKIPPED.
* *Spawning.* The jobs of `Ack.spawn` and `Delegate.jobs` are stored as by an enqueue, before the
  job itself ends, whatever the capacity of their queue; an id that is stored already stays as it
  is.
* *Delegating.* A job that delegates is WAITING for one job, as if it depended on it, without an
  expiry. If that succeeds, it has succeeded with the same result, and does not run; if that is
  lost, or not there, it is SKIPPED, and waits again if that is replayed. Asked to stop, it is
  REVOKED and nothing is stored. What the other one spawns is awaited by those that wait for this
  one (and not by this one itself), through any number of jobs that have delegated.
* *Keys.* A key stands for its job for ``key_ttl`` seconds from the enqueue, whatever becomes of
  the job; only `purge` frees keys early. What counts as the same is `taskmq.envelope.fingerprint`.
* *Limits.* A job that one of its limits keeps from running is held, in its state: it spends no
  delivery, and whatever is not under that limit is reserved in the same exchange. What counts for
  a concurrency limit are leases; for a rate, reservations, less those released. Whoever follows
  (by priority, turn and place) does so in the step that makes room, in every queue where jobs are
  held. `Envelope.limits` are asked in order; a job that one refuses takes nothing from another.
* *Pauses.* A paused queue is like one whose quota is 0: nothing of it is reserved, and it leaves
  nothing waiting. All else goes on: jobs are stored, settled, extended, revoked, reclaimed and
  expire.
* *Pausing workflows.* From the step that pauses one, none of its jobs is reserved, whenever and by
  whomever they are stored: those that are ready are held, as if behind a limit, once they are
  about to be reserved, and until then count as ready. What leases them goes on. The step that ends
  the pause gives them their places back. A pause is forgotten with the last job of its workflow.
* *Turns.* In a queue and priority with an `Envelope.fair`, jobs are reserved by start-time fair
  queueing over its keys; those without one are a key of their own, and those that were there
  before the first come first. A job keeps its turn for life; one that never ran costs its key
  nothing.
* *Replacing.* A replacement envelope brings its task, queue, priority, expiry, ack policy,
  ceiling, limits and result settings (in another queue or priority it has no turn); id, key,
  dependencies and visibility stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Protocol, runtime_checkable

import msgspec

from .codec import Payload
from .documents import Document, DocumentChange
from .envelope import Sealed
from .records import (
    Dropped,
    Failure,
    JobFilter,
    JobRecord,
    Loss,
    MaintenanceReport,
    PausedQueue,
    PausedWorkflow,
    QueueStats,
    Readied,
    Reclaimed,
    WorkerRecord,
)

__all__ = [
    "Ack",
    "Capabilities",
    "DeadLetter",
    "DeadLetters",
    "Defer",
    "Delegate",
    "Delivery",
    "Documents",
    "Enqueued",
    "Exchange",
    "Expire",
    "JobStore",
    "LeaseStatus",
    "Listener",
    "Nack",
    "NamedLeases",
    "Producer",
    "QueueControl",
    "Release",
    "Reservation",
    "Reserver",
    "RetryLater",
    "Revoke",
    "Settled",
    "Settlement",
    "TransactionalProducer",
    "Transport",
    "WorkerRegistry",
    "WorkflowControl",
]

MAX_YIELDS = 100
"""A delivery released this often unstarted is kept by its holder: nobody starves."""
MOST_READIED = 1000
"""So many `Exchange.readied` at most: an answer does not grow with a fan-out."""


class Delivery(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One handing of a job to a worker. ``token`` is new with every reservation."""

    job_id: str
    queue: str
    priority: int
    envelope: bytes
    token: int
    attempt: int
    deliveries: int
    reclaims: int
    yields: int
    lease_until: float
    parked_at: float | None = None
    inputs: Mapping[str, Payload] | None = None
    """Results of the jobs in ``Envelope.after``, and of those that were spawned by them
    (`Ack.spawn`), by job id; ``None`` without dependencies."""
    losses: Mapping[str, Loss] | None = None
    """How those ended that did not succeed; ``None`` without such."""


class Reservation(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker asks for. ``queues`` maps each queue to its weight; ``limit`` 0 only looks.

    ``quotas`` says how many of the deliveries may be of one queue, where that is less. Of a queue
    whose quota is used up nothing counts as waiting (`Exchange.waiting_priority`).

    ``jobs`` names the only ones that are wanted, for whoever gets the order of deliveries from
    elsewhere. Those that could be had without it (ready, of these queues, not paused, let run by
    their limits) are delivered in this order, whatever their priority and turn.
    """

    queues: Mapping[str, int]
    worker: str
    lease: float
    limit: int
    quotas: Mapping[str, int] = {}
    jobs: Sequence[str] | None = None


class Ack(msgspec.Struct, frozen=True):
    """Succeeded. The result is kept if the envelope says so, and handed to dependents.

    ``spawn`` are jobs to be stored in the same step; whoever waits for this job waits for them,
    too, and gets their results.
    """

    delivery: Delivery
    result: Payload | None = None
    spawn: Sequence[Sealed] = ()


class Delegate(msgspec.Struct, frozen=True):
    """Its result is to be that of the job ``to``; ``jobs`` are stored in the same step."""

    delivery: Delivery
    jobs: Sequence[Sealed]
    to: str


class RetryLater(msgspec.Struct, frozen=True):
    """Failed, and runs again after ``delay``: attempt + 1.

    ``envelope`` replaces the stored one, and with it queue, priority and expiry.
    """

    delivery: Delivery
    delay: float
    failure: Failure
    envelope: Sealed | None = None


class Nack(msgspec.Struct, frozen=True):
    """Given back after a start that came to nothing; the delivery stays counted as a reclaim."""

    delivery: Delivery
    delay: float = 0.0
    detail: str = ""


class DeadLetter(msgspec.Struct, frozen=True):
    """Failed for good. Dependents are skipped, in the same step."""

    delivery: Delivery
    reason: str
    failure: Failure


class Defer(msgspec.Struct, frozen=True):
    """Give back, visible after ``delay``; the delivery is not counted.

    With ``park`` the job is marked as waiting for a worker that can run it: `unpark` makes it
    visible at once, and ``park_ttl`` after it was first parked it becomes a dead letter with
    that reason.
    """

    delivery: Delivery
    delay: float
    park: str | None = None
    park_ttl: float | None = None


class Release(msgspec.Struct, frozen=True):
    """Give back unstarted, visible at once in its old place; the delivery is not counted."""

    delivery: Delivery


class Expire(msgspec.Struct, frozen=True):
    """Its ``expires_at`` passed before it started."""

    delivery: Delivery


class Revoke(msgspec.Struct, frozen=True):
    """Stopped because it was revoked."""

    delivery: Delivery


Settlement = Ack | Delegate | RetryLater | Nack | DeadLetter | Defer | Release | Expire | Revoke
"""What a worker says of a delivery. Each delivery is settled once."""


class Settled(Enum):
    """What became of a settlement."""

    DONE = "done"
    REPEATED = "repeated"  # this very settlement took effect before; nothing changed
    LEASE_LOST = "lease_lost"  # the token is no longer current; nothing changed


class LeaseStatus(Enum):
    """What `Reserver.extend` says of a delivery."""

    HELD = "held"
    CANCEL_REQUESTED = "cancel_requested"  # held, and the job was revoked
    TERMINATE_REQUESTED = "terminate_requested"  # and is to be ended by force, where that can be
    LOST = "lost"


class Enqueued(msgspec.Struct, frozen=True, gc=False):
    """``created`` is false where the idempotency key already stood for ``job_id``."""

    job_id: str
    created: bool


class Exchange(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one exchange.

    ``settled`` is parallel to the settlements. ``next_due_at`` is when the store next has
    something to do for these queues by itself: the earliest future visibility or lease end.
    ``waiting_priority`` is the highest priority that is still ready and was not reserved.
    ``readied`` are jobs that the settlements left with nothing to wait for, at most `MOST_READIED`
    in no particular order, for whoever has to tell others of them. They may be among the
    deliveries.
    """

    settled: Sequence[Settled] = ()
    deliveries: Sequence[Delivery] = ()
    dropped: Sequence[Dropped] = ()
    readied: Sequence[Readied] = ()
    next_due_at: float | None = None
    waiting_priority: int | None = None


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a store can do. Conformance is gated by these, never by a transport's name.

    ``limitations`` says in words what is missing; ``taskmq status`` prints it.
    """

    durable: bool
    """What was enqueued survives the end of every process."""
    shared: bool
    """Several processes may use it at once."""
    global_priority: bool = True
    fifo: bool = True
    weighted_turns: bool = True
    dependencies: bool = True
    workflows: bool = False
    """Conditions, spawning and delegating (`Envelope.run_if`, `Ack.spawn`, `Delegate`)."""
    wakeups: bool = True
    """A listener wakes without polling at a fixed interval."""
    limits: bool = True
    """Holds jobs behind rate and concurrency limits (`Envelope.limits`)."""
    capacity: bool = True
    """Keeps queues to `Sealed.capacity`."""
    fair_turns: bool = True
    """Lets the keys of a queue take turns (`Envelope.fair`)."""
    workflow_pauses: bool = False
    """Pauses workflows (`WorkflowControl`)."""
    transactional: bool = False
    """Stores jobs within a transaction of the caller's (`TransactionalProducer`)."""
    limitations: tuple[str, ...] = ()


class Listener(Protocol):
    """Wakes a thread when the store may have something new for it: work, the end of a job, or
    another time at which to look (`Exchange.next_due_at`: a job delayed, a lease begun).

    Use: ``clear()``, look (an exchange, a get), and if there is nothing, ``wait``: a change after
    the clear ends the wait at once, so none is missed. A wake-up may be spurious.
    """

    def clear(self) -> None:
        """Forget what was signalled so far."""

    def wait(self, timeout: float | None) -> bool:
        """Block until something may have changed (true) or ``timeout`` seconds passed (false)."""

    def call_back(self, on_change: Callable[[], None]) -> bool:
        """Instead of a wait: have ``on_change`` called once, when a wait would end; at once if it
        would end now. Whoever brings the news calls it, from any thread or signal handler: it must
        not block, raise, or use the store. False: this listener cannot, at least not now, and has
        to be waited for."""

    def wake(self) -> None:
        """End a wait, now or the next one. Safe from any thread and from a signal handler."""

    def close(self) -> None: ...


@runtime_checkable
class Producer(Protocol):
    def enqueue(self, sealed: Sequence[Sealed]) -> list[Enqueued]:
        """Store jobs, all or none, in this order. Durable on return where the store is.

        An envelope with ``after`` starts in WAITING, with one pending dependency each; the jobs
        it names are in the same batch, before or behind it, or in the store (one that has
        succeeded counts as met). That they form no cycle is the caller's business.
        An id that is stored already is left as it is (``created=False``), so that a repeated
        call after an unclear failure is harmless. An envelope with a ``key`` that stands for
        another job with the same task and arguments gives that job's id.

        Where `Sealed.capacity` is given, no more than that wait in the queue afterwards (ready,
        delayed or held; not counting those that wait for other jobs): `QueueFull` otherwise, or
        the oldest ready jobs of the lowest priority become dead letters with reason
        ``queue_full``, if there are enough of them besides the new ones. Raises
        `IdempotencyConflict` if task or arguments differ, `UnknownDependency`, `StoreFull`,
        `QueueFull`, `TransportUnavailable`.
        """


@runtime_checkable
class TransactionalProducer(Protocol):
    """What a store can do besides that shares a database with its users' data
    (`Capabilities.transactional`)."""

    def enqueue_within(self, sealed: Sequence[Sealed], connection: object) -> list[Enqueued]:
        """`Producer.enqueue` on a connection of the caller's to the same database, as part of the
        transaction that is open there: rolled back, the jobs never were; committed, they are
        durable, and wake whoever waits. Raises `ConfigError` as well for a connection that leads
        elsewhere, or that commits by itself."""


@runtime_checkable
class Reserver(Protocol):
    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        """Settle the finished and reserve the next, as one atomic step.

        A refused settlement (`Settled.LEASE_LOST`) does not fail the others. Before it reserves,
        the store makes due jobs visible, takes back jobs of these queues whose lease has ended
        (``reclaims`` + 1; at ``max_deliveries``, or at once for ``ack="on_receipt"``, a dead
        letter with reason ``worker_lost``), and drops expired ones. What it ended so is in
        `Exchange.dropped`: here, in `Transport.maintain` or in `WorkerRegistry.reclaim`, each job
        once. It does so too for a ``limit`` of 0, but not without a reservation.
        """

    def reserve(self, reservation: Reservation) -> Sequence[Delivery]:
        """The deliveries of an exchange without settlements."""

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        """The outcomes of an exchange without a reservation."""

    def extend(self, deliveries: Sequence[Delivery], lease: float) -> list[LeaseStatus]:
        """Let each lease end ``lease`` seconds from now, where it is still current."""

    def check(self, deliveries: Sequence[Delivery]) -> list[LeaseStatus]:
        """What `extend` would say of each, without extending it. Cheap: it only reads."""

    def listen(
        self, queues: Sequence[str] = (), jobs: Sequence[str] = (), kinds: Sequence[str] = ()
    ) -> Listener:
        """A listener for new work on queues, for the end of jobs, and for writes to documents of
        some kinds."""


@runtime_checkable
class JobStore(Protocol):
    def get(self, job_ids: Sequence[str]) -> list[JobRecord | None]:
        """Each job, in order; ``None`` for an id that the store does not know."""

    def find(self, filter: JobFilter) -> list[JobRecord]:
        """Jobs that match, oldest first, at most ``filter.limit``."""

    def revoke(
        self, job_ids: Sequence[str], *, terminate: bool = False, by: str = ""
    ) -> list[bool]:
        """Take jobs out: one that has not started becomes REVOKED at once (dependents are
        skipped), a running one is asked to stop (``cancel_requested``). False for a job that is
        finished or unknown. With ``terminate``, whoever runs it is asked to end it by force;
        that is not taken back by a later revoke without.

        ``by`` says to people who wants it. The store keeps that and the time, of the first revoke
        of a job, until it is replayed or deleted (`JobRecord.revoked_by`)."""

    def forget(self, job_ids: Sequence[str]) -> int:
        """Delete finished jobs (not dead letters) with their results; how many there were."""

    def stats(self, queues: Sequence[str] | None = None) -> list[QueueStats]:
        """Depths, by queue name. ``None``: every queue with a job that is unfinished or dead."""

    def purge(self, queue: str) -> int:
        """Delete what waits in a queue (ready, delayed, parked) and free its keys; how many
        there were. Running jobs and those that wait for dependencies stay, except that jobs
        which wait for a deleted one are skipped."""


@runtime_checkable
class DeadLetters(Protocol):
    def replay(self, job_ids: Sequence[str], envelopes: Mapping[str, Sealed]) -> list[bool]:
        """Queue dead letters again under their own id: attempt 1, counters 0, history kept.

        ``envelopes`` replaces the envelope of some, and with it queue, priority and expiry (edit
        and replay). False for an id that is
        no dead letter. Dependents that were skipped because of it wait again.
        """

    def bury(self, job_ids: Sequence[str]) -> int:
        """Delete dead letters for good; how many there were."""


@runtime_checkable
class WorkerRegistry(Protocol):
    def register(self, worker: WorkerRecord) -> None:
        """Describe a worker; also its heartbeat: the newest description replaces the last.

        One of a predecessor of the same name that a partition has held up is dropped
        (`WorkerRecord.is_superseded_by`): else a neighbour would find the predecessor dead, and
        take back by its name what the successor holds.
        """

    def deregister(self, worker_id: str) -> None: ...

    def reclaim(self, worker: WorkerRecord) -> Reclaimed:
        """Take back the running jobs of a worker whose process is known to have ended, without
        waiting for their leases, and drop its entry.

        They count as reclaims, as with an ended lease, and are visible now. Nothing happens, and
        the count is 0, unless the registry still has the entry of this very worker
        (``started_at``, ``pid`` and ``process``): several may call it, and its successor may have
        taken its name.
        """

    def workers(self) -> list[WorkerRecord]:
        """Every worker that registered and did not leave, by id; stale ones included, until
        `maintain` drops those that have been silent for a day."""

    def unpark(self, tasks: Sequence[str]) -> int:
        """Make parked jobs of these tasks visible at once; how many there were."""


@runtime_checkable
class NamedLeases(Protocol):
    def acquire(self, name: str, owner: str, ttl: float) -> bool:
        """Take or renew the named lease for ``ttl`` seconds; false if another owner has it."""

    def surrender(self, name: str, owner: str) -> bool:
        """Give a named lease up; false if ``owner`` does not hold it."""


@runtime_checkable
class QueueControl(Protocol):
    """What people decide about a queue. It is stored, and holds for whoever reserves later too."""

    def pause(self, queue: str, *, by: str, reason: str = "") -> bool:
        """Let nobody reserve from a queue; false if it is paused already, which then stays as it
        is (who, when, why)."""

    def resume(self, queue: str) -> bool:
        """End a pause, and wake whoever listens to the queue; false if it is not paused."""

    def paused(self) -> list[PausedQueue]:
        """Every paused queue, by name."""


@runtime_checkable
class WorkflowControl(Protocol):
    """What people decide about a workflow: whether more of it is begun. It is stored."""

    def pause_workflow(self, workflow: str, *, by: str, reason: str = "") -> bool:
        """Let nobody reserve a job of a workflow. False, and nothing happens, if it is paused
        already (who, when, why stay), or no job of it is stored."""

    def resume_workflow(self, workflow: str) -> bool:
        """End a pause, and wake whoever listens to queues with jobs that it held; false if there
        is none."""

    def paused_workflows(self) -> list[PausedWorkflow]:
        """Every paused workflow, by id."""


@runtime_checkable
class Documents(Protocol):
    """Small documents, by kind and name. They outlive every process, if the store does."""

    def documents(self, kind: str, names: Sequence[str] | None = None) -> list[Document]:
        """Those of a kind, by name; only these ``names``, if given, where there are such."""

    def write(self, changes: Sequence[DocumentChange]) -> list[bool]:
        """Write documents, each only if it still is what the writer believes; which were. All in
        one step, and each on its own: one that is refused does not keep another from being
        written. Wakes whoever listens to their kinds."""


@runtime_checkable
class Transport(
    Producer,
    Reserver,
    JobStore,
    DeadLetters,
    WorkerRegistry,
    NamedLeases,
    QueueControl,
    WorkflowControl,
    Documents,
    Protocol,
):
    """A whole store."""

    @property
    def capabilities(self) -> Capabilities: ...

    def maintain(self, limit: int = 1000) -> MaintenanceReport:
        """Housekeeping, at most ``limit`` jobs of each kind: take back ended leases, drop
        expired jobs, dead-letter jobs parked for too long, delete what is past its retention,
        drop the entries of workers that were silent for a day.
        Any process may call it at any time, several at once too."""

    def close(self) -> None:
        """Release connections; nothing is lost. Closing twice is allowed."""
