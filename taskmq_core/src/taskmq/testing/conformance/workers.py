"""The registry of workers."""

from __future__ import annotations

import msgspec

from taskmq.records import ProcessMark, WorkerRecord
from taskmq.states import Event, JobState
from taskmq.transport import Ack, Settled

from .case import case
from .checks import equal
from .subject import Subject


def _worker(subject: Subject, name: str) -> WorkerRecord:
    now = subject.clock.now()
    return WorkerRecord(
        id=name,
        queues=("a", "b"),
        pool="threads",
        concurrency=4,
        started_at=now,
        heartbeat_at=now,
        heartbeat_interval=10.0,
        host="host-ü",
        pid=4711,
        process=ProcessMark(boot="b-1", namespaces="n-1", started=2**40),
        running=2,
        processed=10,
        tasks=("demo.a", "demo.b"),
        meta={"version": "1", "nested": {"x": [1, 2.5, None]}},
    )


@case()
def registered_worker_is_listed_as_it_described_itself(subject: Subject) -> None:
    """Every field of a registration comes back, on every handle, by id."""
    equal(subject.transport.workers(), [], "workers of an empty store")
    b, a = _worker(subject, "b"), _worker(subject, "a")
    subject.transport.register(b)
    subject.transport.register(a)
    equal(subject.open().workers(), [a, b], "workers")


@case()
def newest_description_replaces_the_last(subject: Subject) -> None:
    """A heartbeat is a registration: one entry a worker, the newest."""
    worker = _worker(subject, "a")
    subject.transport.register(worker)
    subject.clock.advance(10)
    newer = msgspec.structs.replace(
        worker, heartbeat_at=subject.clock.now(), running=0, queues=("c",), tasks=(), meta={}
    )
    subject.transport.register(newer)
    equal(subject.transport.workers(), [newer], "workers")


@case()
def late_word_of_a_predecessor_is_dropped(subject: Subject) -> None:
    """A heartbeat that arrives when its worker was started anew does not replace the entry of
    the successor; one of a namesake that goes on does."""
    first = _worker(subject, "a")
    subject.transport.register(first)
    subject.clock.advance(10)
    second = msgspec.structs.replace(_worker(subject, "a"), pid=4712)
    subject.transport.register(second)
    held_up = msgspec.structs.replace(first, heartbeat_at=first.heartbeat_at + 5)
    subject.transport.register(held_up)
    equal(subject.transport.workers(), [second], "workers")
    equal(subject.transport.reclaim(held_up).count, 0, "taken back from the first")
    subject.clock.advance(10)
    alive = msgspec.structs.replace(first, heartbeat_at=subject.clock.now())
    subject.transport.register(alive)
    equal(subject.transport.workers(), [alive], "workers")


@case()
def worker_that_left_is_listed_no_longer(subject: Subject) -> None:
    """`deregister` removes one worker; an unknown id is no error."""
    a, b = _worker(subject, "a"), _worker(subject, "b")
    subject.transport.register(a)
    subject.transport.register(b)
    subject.transport.deregister("a")
    subject.transport.deregister("unknown")
    equal(subject.transport.workers(), [b], "workers")


@case()
def silent_worker_stays_listed(subject: Subject) -> None:
    """A worker that fell silent is for people to see: it is listed, and known as stale."""
    subject.transport.register(_worker(subject, "a"))
    subject.clock.advance(3_600)
    subject.transport.maintain()
    (worker,) = subject.transport.workers()
    equal(worker.is_stale(subject.clock.now()), True, "stale")


@case()
def worker_that_was_silent_for_a_day_is_forgotten(subject: Subject) -> None:
    """`maintain` drops entries that nobody renewed for a day, and no others."""
    subject.transport.register(_worker(subject, "a"))
    subject.clock.advance(40_000)
    alive = _worker(subject, "b")
    subject.transport.register(alive)
    subject.clock.advance(46_400)
    equal(subject.transport.maintain().workers_forgotten, 1, "forgotten")
    equal(subject.transport.workers(), [alive], "workers")


@case()
def jobs_of_a_worker_that_is_gone_are_taken_back_at_once(subject: Subject) -> None:
    """`reclaim` takes every running job of one worker back, long before its leases end, in the
    place that it had, and the entry goes."""
    ids = subject.add_many(3)
    worker = _worker(subject, "worker-1")
    subject.transport.register(worker)
    lost = subject.hold(ids[:2])
    subject.take(ids[2], worker="worker-2")
    equal(subject.open().reclaim(worker).count, 2, "jobs taken back")
    equal(subject.transport.workers(), [], "workers")
    equal(subject.settle(*map(Ack, lost)), [Settled.LEASE_LOST] * 2, "settlements of the lost")
    again = subject.hold(ids[:2], worker="worker-2")
    equal([(d.reclaims, d.deliveries) for d in again], [(1, 2)] * 2, "reclaims and deliveries")
    subject.expect(ids[2], JobState.RUNNING, "that another worker holds")


@case()
def job_taken_back_from_a_worker_is_visible_now(subject: Subject) -> None:
    """What `reclaim` took back is visible from that moment on, and its history says why."""
    job_id = subject.add()
    worker = _worker(subject, "worker-1")
    subject.transport.register(worker)
    subject.take(job_id)
    subject.clock.advance(5)
    subject.transport.reclaim(worker)
    record = subject.expect(job_id, JobState.QUEUED, "after a reclaim")
    equal(record.visible_at, subject.clock.now(), "visible_at")
    equal([entry.event for entry in record.history], [Event.RECLAIM.value], "history")


@case()
def reclaim_from_a_worker_counts_like_an_ended_lease(subject: Subject) -> None:
    """The ceiling, ``on_receipt`` and a request to stop hold for `reclaim` as for a lease."""
    last = subject.add(max_deliveries=1)
    once = subject.add(ack="on_receipt")
    revoked = subject.add()
    worker = _worker(subject, "worker-1")
    subject.transport.register(worker)
    subject.hold([last, once, revoked])
    subject.transport.revoke([revoked])
    taken = subject.transport.reclaim(worker)
    equal(taken.count, 3, "jobs taken back")
    reasons = {drop.job_id: drop.reason for drop in taken.dropped}
    lost = "worker_lost"
    equal(reasons, {last: lost, once: lost, revoked: "revoked"}, "the ones that ended so")
    equal(list(subject.transport.maintain().dropped), [], "dropped again")
    for job_id in (last, once):
        record = subject.expect(job_id, JobState.FAILED, "after its last delivery was lost")
        equal(record.dead_reason, lost, "reason")
    subject.expect(revoked, JobState.REVOKED, "that was asked to stop")


@case()
def only_the_worker_that_is_gone_is_reclaimed_from(subject: Subject) -> None:
    """A successor under the same name keeps its jobs, and a second `reclaim` does nothing."""
    job_id = subject.add()
    gone = _worker(subject, "worker-1")
    subject.transport.register(gone)
    subject.clock.advance(1)
    successor = _worker(subject, "worker-1")
    subject.transport.register(successor)
    subject.take(job_id)
    other = msgspec.structs.replace(successor, process=None)
    for who in (gone, other, _worker(subject, "unknown")):
        equal(subject.transport.reclaim(who).count, 0, "jobs taken back")
    subject.expect(job_id, JobState.RUNNING, "of a living worker")
    later = msgspec.structs.replace(successor, heartbeat_at=subject.clock.now() + 1, running=9)
    equal(subject.transport.reclaim(later).count, 1, "by an older or newer description of itself")
    equal(subject.transport.reclaim(later).count, 0, "jobs taken back twice")
