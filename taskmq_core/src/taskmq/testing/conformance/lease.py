"""Leases: what becomes of a job whose worker falls silent."""

from __future__ import annotations

import msgspec

from taskmq.states import Event, JobState
from taskmq.transport import (
    Ack,
    Defer,
    LeaseStatus,
    Nack,
    Release,
    RetryLater,
    Settled,
)

from .case import case
from .checks import equal, holds, near
from .subject import FAILURE, Subject


def _lose(subject: Subject, lease: float = 10.0) -> None:
    """Reserve one and let its lease run out."""
    subject.take(lease=lease)
    subject.clock.advance(lease)


@case()
def ended_lease_makes_the_job_reservable(subject: Subject) -> None:
    """A job is held until its lease has run out, and is somebody else's from then on."""
    job_id = subject.add()
    start = subject.clock.now()
    subject.take(lease=10.0)
    subject.clock.set(start + 9.99)
    subject.idle(worker="worker-2")
    subject.clock.set(start + 10)
    delivery = subject.take(job_id, worker="worker-2")
    equal((delivery.reclaims, delivery.deliveries), (1, 2), "reclaims and deliveries")
    equal(subject.record(job_id).worker, "worker-2", "worker")


@case()
def lease_is_extended_twice_in_one_call(subject: Subject) -> None:
    """A delivery may be named twice: both are answered, and nothing is counted twice."""
    subject.add()
    delivery = subject.take(lease=10.0)
    answers = subject.transport.extend([delivery, delivery], 20.0)
    equal(list(answers), [LeaseStatus.HELD, LeaseStatus.HELD], "extended")
    (stats,) = subject.transport.stats()
    equal(stats.running, 1, "running")
    subject.clock.advance(15)
    subject.idle()
    subject.done(Ack(delivery))
    equal([each.running for each in subject.transport.stats() if each.running], [], "at the end")


@case()
def reclaimed_job_is_queued_and_its_loss_noted(subject: Subject) -> None:
    """A lost delivery counts as a reclaim and stands in the history with its worker."""
    job_id = subject.add()
    start = subject.clock.now()
    subject.take(worker="lost-worker", lease=10.0)
    subject.clock.advance(15)
    equal(subject.exchange(limit=0).waiting_priority, 0, "it is ready")
    record = subject.expect(job_id, JobState.QUEUED, "after the reclaim")
    equal((record.reclaims, record.attempt, record.lease_until), (1, 1, None), "counters")
    near(record.visible_at, start + 10, "visible_at")
    (entry,) = record.history
    told = (entry.event, entry.attempt, entry.worker)
    equal(told, (Event.RECLAIM.value, 1, "lost-worker"), "history")


@case("fifo")
def reclaimed_job_keeps_its_place(subject: Subject) -> None:
    """A job that was taken back comes before those enqueued after it."""
    first, second = subject.add_many(2)
    _lose(subject)
    equal([d.job_id for d in subject.reserve(limit=2)], [first, second], "the order")


@case()
def ceiling_of_reclaims_is_exact(subject: Subject) -> None:
    """The ``max_deliveries``-th lost delivery makes a dead letter, not one earlier or later."""
    for ceiling in (1, 2, 4):
        job_id = subject.add(max_deliveries=ceiling)
        for lost in range(ceiling):
            equal(subject.take(job_id).reclaims, lost, "reclaims at the delivery")
            subject.clock.advance(60)
            answer = subject.exchange(limit=0)
        record = subject.expect(job_id, JobState.FAILED, f"after {ceiling} lost deliveries")
        equal((record.dead_reason, record.reclaims), ("worker_lost", ceiling), "reason, count")
        dropped = [(drop.job_id, drop.reason, drop.queue, drop.task) for drop in answer.dropped]
        equal(dropped, [(job_id, "worker_lost", "q", "demo.task")], "dropped")
    subject.idle()


@case()
def lost_worker_leaves_the_last_failure_and_a_history(subject: Subject) -> None:
    """A dead letter by lost workers keeps what is known: failures before, every loss, payload."""
    sealed = subject.job(max_deliveries=2)
    subject.transport.enqueue([sealed])
    subject.done(RetryLater(subject.take(), 0.0, FAILURE))
    _lose(subject)
    _lose(subject)
    subject.exchange(limit=0)
    record = subject.expect(sealed.envelope.id, JobState.FAILED, "after its ceiling")
    equal(record.failure, FAILURE, "failure")
    equal(record.envelope, sealed.data, "payload")
    events = [entry.event for entry in record.history]
    equal(events, [Event.RETRY.value, Event.RECLAIM.value, Event.DEAD.value], "history")
    holds("worker_lost" in record.history[-1].detail, "the last entry has the reason")


@case()
def nack_counts_like_a_lost_delivery(subject: Subject) -> None:
    """A nack gives the job back after its delay, counted as a reclaim, with its detail noted."""
    job_id = subject.add(max_deliveries=2)
    subject.done(Nack(subject.take(), 5.0, "no memory"))
    record = subject.expect(job_id, JobState.QUEUED, "after a nack")
    equal((record.reclaims, record.deliveries), (1, 1), "reclaims and deliveries")
    near(record.visible_at, subject.clock.now() + 5, "visible_at")
    equal(record.history[0].event, Event.NACK.value, "history")
    holds("no memory" in record.history[0].detail, "the entry has the detail")
    subject.idle()
    subject.clock.advance(5)
    subject.done(Nack(subject.take()))
    equal(subject.expect(job_id, JobState.FAILED, "after two").dead_reason, "worker_lost", "reason")


@case()
def on_receipt_job_is_never_redelivered(subject: Subject) -> None:
    """A job acked on receipt is a dead letter as soon as its worker is lost."""
    lost, nacked = (subject.add(ack="on_receipt", queue=queue) for queue in ("q", "r"))
    subject.done(Nack(subject.take(nacked, queues=["r"])))
    equal(subject.expect(nacked, JobState.FAILED, "after a nack").dead_reason, "worker_lost", "why")
    _lose(subject)
    subject.idle(queues=["q", "r"])
    record = subject.expect(lost, JobState.FAILED, "after its lease ended")
    equal((record.dead_reason, record.reclaims), ("worker_lost", 1), "reason and reclaims")


@case()
def on_receipt_job_may_be_given_back_unstarted(subject: Subject) -> None:
    """Release, defer and retry are the worker's word, and hold for on_receipt too."""
    job_id = subject.add(ack="on_receipt")
    subject.done(Release(subject.take()))
    subject.done(Defer(subject.take(job_id), 0.0))
    subject.done(RetryLater(subject.take(job_id), 0.0, FAILURE))
    subject.done(Ack(subject.take(job_id)))
    subject.expect(job_id, JobState.SUCCEEDED, "in the end")


@case()
def extended_lease_holds_on(subject: Subject) -> None:
    """`extend` lets a lease end that many seconds from now, longer or shorter."""
    job_id = subject.add()
    delivery = subject.take(lease=10.0)
    subject.clock.advance(9)
    equal(subject.transport.extend([delivery], 10.0), [LeaseStatus.HELD], "status")
    near(subject.record(job_id).lease_until, subject.clock.now() + 10, "lease_until")
    subject.clock.advance(9.5)
    subject.idle()
    near(subject.exchange().next_due_at, subject.clock.now() + 0.5, "next_due_at")
    equal(subject.transport.extend([delivery], 1.0), [LeaseStatus.HELD], "status")
    subject.clock.advance(1)
    subject.take(job_id, worker="worker-2")


@case()
def lease_over_but_not_taken_back_can_be_extended(subject: Subject) -> None:
    """Nobody else has the job: its worker may go on."""
    job_id = subject.add()
    delivery = subject.take(lease=10.0)
    subject.clock.advance(100)
    equal(subject.transport.extend([delivery], 10.0), [LeaseStatus.HELD], "status")
    subject.idle()
    subject.done(Ack(delivery))
    equal(subject.record(job_id).reclaims, 0, "reclaims")


@case()
def lost_lease_is_reported_and_not_extended(subject: Subject) -> None:
    """`extend` says LOST for what was taken back, settled or deleted, and changes nothing."""
    taken, settled, gone = (subject.add(result_ttl=ttl) for ttl in (9.0, 9.0, 0.0))
    deliveries = {d.job_id: d for d in subject.reserve(limit=3, lease=10.0)}
    subject.settle(Ack(deliveries[settled]), Ack(deliveries[gone]))
    subject.clock.advance(10)
    current = subject.take(taken, worker="worker-2", lease=33.0)
    asked = [deliveries[taken], deliveries[settled], deliveries[gone], current]
    lost, held = LeaseStatus.LOST, LeaseStatus.HELD
    equal(subject.transport.extend(asked, 33.0), [lost, lost, lost, held], "statuses")
    near(subject.record(taken).lease_until, subject.clock.now() + 33, "lease of the new holder")
    equal(subject.transport.extend([], 5.0), [], "nothing to extend")


@case()
def leases_end_one_by_one(subject: Subject) -> None:
    """Only the leases that are over are taken back."""
    first, second = subject.add_many(2)
    subject.take(first, lease=5.0)
    subject.take(second, lease=50.0)
    subject.clock.advance(5)
    equal([d.job_id for d in subject.reserve(limit=5)], [first], "taken back")


@case()
def many_leases_end_at_once(subject: Subject) -> None:
    """A worker that dies with 500 jobs loses all of them, and all come back once."""
    ids = subject.add_many(500)
    held = subject.reserve(limit=500, lease=10.0)
    subject.clock.advance(10)
    again = subject.reserve(limit=1_000, worker="worker-2")
    equal(sorted(d.job_id for d in again), sorted(ids), "deliveries to the second worker")
    outcomes = subject.settle(*(Ack(delivery) for delivery in held))
    equal(set(outcomes), {Settled.LEASE_LOST}, "outcomes for the first worker")


@case()
def check_tells_what_became_of_a_delivery(subject: Subject) -> None:
    """`check` answers in order, like `extend`: held, asked to stop, lost."""
    held, asked, settled, lost = subject.hold(subject.add_many(4))
    subject.transport.revoke([asked.job_id])
    subject.done(Ack(settled))
    subject.done(Nack(lost))
    subject.take(lost.job_id, worker="worker-2")
    unknown = msgspec.structs.replace(held, job_id="unknown")
    other = subject.open()
    expected = [LeaseStatus.CANCEL_REQUESTED, LeaseStatus.HELD] + [LeaseStatus.LOST] * 3
    equal(other.check([asked, held, settled, lost, unknown]), expected, "the answers")
    equal(other.check([]), [], "the answers for nothing")


@case()
def check_extends_nothing(subject: Subject) -> None:
    """A lease that is only looked at ends when it would have ended."""
    delivery = subject.take(subject.add(), lease=10.0)
    subject.clock.advance(9)
    equal(subject.transport.check([delivery]), [LeaseStatus.HELD], "shortly before the end")
    subject.clock.advance(1)
    equal(subject.transport.check([delivery]), [LeaseStatus.HELD], "before anybody took it back")
    subject.take(delivery.job_id, worker="worker-2")
    equal(subject.transport.check([delivery]), [LeaseStatus.LOST], "afterwards")
