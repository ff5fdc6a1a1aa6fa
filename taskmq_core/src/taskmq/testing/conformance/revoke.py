"""Revoking: what has not started never does, what runs is asked to stop."""

from __future__ import annotations

from taskmq.states import JobState
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    Delivery,
    LeaseStatus,
    Nack,
    Release,
    RetryLater,
    Revoke,
    Settlement,
)

from .case import case
from .checks import equal, near
from .subject import FAILURE, Subject, text


@case()
def unstarted_job_is_revoked_at_once(subject: Subject) -> None:
    """A queued, delayed, retrying or parked job becomes REVOKED and never runs."""
    retrying, parked, queued = subject.add_many(3)
    delayed = subject.add(eta=subject.clock.now() + 5)
    subject.done(RetryLater(subject.take(retrying), 5.0, FAILURE))
    subject.done(Defer(subject.take(parked), 5.0, "unknown_task", 50.0))
    ids = [queued, delayed, retrying, parked]
    equal(subject.transport.revoke(ids), [True] * 4, "the answers")
    for job_id in ids:
        record = subject.expect(job_id, JobState.REVOKED, "after revoke")
        near(record.finished_at, subject.clock.now(), "finished_at")
        equal((record.parked_reason, record.dead_reason), (None, None), "reasons")
    subject.clock.advance(100)
    subject.transport.maintain()
    subject.idle()


@case("dependencies")
def waiting_job_is_revoked_and_its_dependents_skipped(subject: Subject) -> None:
    """Revoking a job that waits for others ends it, and what waits for it."""
    first = subject.add()
    second = subject.add(after=[first])
    third = subject.add(after=[second])
    equal(subject.transport.revoke([second]), [True], "the answer")
    subject.expect(second, JobState.REVOKED, "after revoke")
    subject.expect(third, JobState.SKIPPED, "after its dependency was revoked")
    subject.done(Ack(subject.take(first)))
    subject.idle()


@case("dependencies")
def revoked_together_means_revoked(subject: Subject) -> None:
    """Jobs revoked in one call are all REVOKED, those that wait for each other included."""
    first = subject.add()
    second = subject.add(after=[first])
    third = subject.add(after=[second])
    equal(subject.transport.revoke([first, second]), [True, True], "the answers")
    subject.expect(first, JobState.REVOKED, "after revoke")
    subject.expect(second, JobState.REVOKED, "after revoke")
    subject.expect(third, JobState.SKIPPED, "after its dependency was revoked")


@case()
def running_job_is_asked_to_stop(subject: Subject) -> None:
    """A running job stays RUNNING; its worker learns of it when it extends the lease."""
    job_id, other = subject.add_many(2)
    delivery, second = subject.hold([job_id, other], lease=10.0)
    equal(subject.transport.revoke([job_id]), [True], "the answer")
    record = subject.expect(job_id, JobState.RUNNING, "after revoke")
    equal(record.cancel_requested, True, "cancel_requested")
    equal(subject.record(other).cancel_requested, False, "cancel_requested of another")
    statuses = subject.transport.extend([delivery, second], 30.0)
    equal(statuses, [LeaseStatus.CANCEL_REQUESTED, LeaseStatus.HELD], "statuses")
    near(subject.record(job_id).lease_until, subject.clock.now() + 30, "lease_until")
    equal(subject.transport.revoke([job_id]), [True], "a second revoke")
    subject.done(Revoke(delivery))
    subject.expect(job_id, JobState.REVOKED, "after its worker stopped it")
    subject.idle()


@case()
def running_job_can_be_asked_to_be_ended_by_force(subject: Subject) -> None:
    """A revoke with ``terminate`` goes beyond one without, and is not taken back by it."""
    job_id = subject.add()
    delivery = subject.take(job_id, lease=30.0)
    asked = [LeaseStatus.TERMINATE_REQUESTED]
    subject.transport.revoke([job_id])
    equal(subject.transport.check([delivery]), [LeaseStatus.CANCEL_REQUESTED], "the status")
    equal(subject.transport.revoke([job_id], terminate=True), [True], "the answer")
    equal(subject.transport.check([delivery]), asked, "the status")
    subject.transport.revoke([job_id])
    equal(subject.transport.extend([delivery], 30.0), asked, "the status after one without")
    equal(subject.record(job_id).cancel_requested, True, "cancel_requested")
    subject.done(Revoke(delivery))
    subject.expect(job_id, JobState.REVOKED, "after its worker ended it")
    waiting = subject.add()
    equal(subject.transport.revoke([waiting], terminate=True), [True], "the answer")
    subject.expect(waiting, JobState.REVOKED, "which had not started")


@case()
def finished_or_unknown_job_is_not_revoked(subject: Subject) -> None:
    """The answer is false, and nothing changes."""
    done, dead = subject.add_many(2)
    subject.done(Ack(subject.take(done), text("value")))
    subject.done(DeadLetter(subject.take(dead), "error", FAILURE))
    before = subject.transport.get([done, dead])
    asked = [done, dead, "01UNKNOWN"]
    equal(subject.transport.revoke(asked), [False, False, False], "the answers")
    equal(subject.transport.get([done, dead]), before, "the records")
    queued = subject.add()
    equal(subject.transport.revoke([queued]), [True], "a queued job")
    equal(subject.transport.revoke([queued]), [False], "a revoked job")
    equal(subject.transport.revoke([]), [], "nothing to revoke")


@case()
def success_of_a_job_asked_to_stop_stays_a_success(subject: Subject) -> None:
    """A worker that had finished when the revoke came keeps its result."""
    job_id = subject.add()
    delivery = subject.take()
    subject.transport.revoke([job_id])
    subject.done(Ack(delivery, text("value")))
    record = subject.expect(job_id, JobState.SUCCEEDED, "after its ack")
    equal(record.result, text("value"), "result")


@case()
def job_asked_to_stop_never_goes_back_to_its_queue(subject: Subject) -> None:
    """A retry, nack, defer, park or release of a revoked running job makes it REVOKED."""

    def ways(delivery: Delivery) -> list[Settlement]:
        return [
            RetryLater(delivery, 0.0, FAILURE),
            Nack(delivery),
            Defer(delivery, 0.0),
            Defer(delivery, 0.0, "unknown_task", 50.0),
            Release(delivery),
        ]

    for number in range(5):
        job_id = subject.add()
        delivery = subject.take(job_id)
        subject.transport.revoke([job_id])
        settlement = ways(delivery)[number]
        subject.done(settlement)
        name = type(settlement).__name__
        record = subject.expect(job_id, JobState.REVOKED, f"after {name}")
        equal((record.dead_reason, record.parked_reason), (None, None), f"reasons after {name}")
        subject.idle()


@case()
def lost_job_asked_to_stop_is_revoked(subject: Subject) -> None:
    """When the worker of a revoked running job is lost, the job is REVOKED, not run again."""
    for max_deliveries in (5, 1):
        job_id = subject.add(max_deliveries=max_deliveries)
        subject.take(job_id, lease=10.0)
        subject.transport.revoke([job_id])
        subject.clock.advance(10)
        subject.idle()
        record = subject.expect(job_id, JobState.REVOKED, "after its lease ended")
        equal((record.reclaims, record.history), (1, ()), "reclaims and history")


@case()
def replayed_job_is_asked_to_stop_no_longer(subject: Subject) -> None:
    """A job that failed although it was asked to stop is replayed without that request."""
    job_id = subject.add()
    delivery = subject.take()
    subject.transport.revoke([job_id])
    subject.done(DeadLetter(delivery, "error", FAILURE))
    subject.expect(job_id, JobState.FAILED, "after its dead letter")
    subject.transport.replay([job_id], {})
    record = subject.record(job_id)
    equal(record.cancel_requested, False, "cancel_requested")
    equal((record.revoked_by, record.revoked_at), (None, None), "who and when")
    delivery = subject.take(job_id)
    equal(subject.transport.extend([delivery], 10.0), [LeaseStatus.HELD], "status")


@case()
def record_says_who_revoked_and_when(subject: Subject) -> None:
    """Of the first revoke, while the job runs as well; not of one that changes nothing."""
    running, queued, other = subject.add_many(3)
    delivery = subject.take(running)

    def told(job_id: str) -> tuple[str | None, float | None]:
        record = subject.record(job_id)
        return record.revoked_by, record.revoked_at

    equal([told(job_id) for job_id in (running, queued)], [(None, None)] * 2, "before")
    at = subject.clock.now()
    subject.transport.revoke([running, queued], by="ann@host")
    subject.clock.advance(5)
    subject.transport.revoke([running, queued], terminate=True, by="bob@host")
    equal([told(job_id) for job_id in (running, queued)], [("ann@host", at)] * 2, "who and when")
    subject.done(Release(delivery))
    equal(told(running), ("ann@host", at), "who and when, after its end")
    subject.transport.revoke([other])
    equal(told(other), ("", at + 5), "of somebody who did not say")


@case()
def revoke_is_seen_on_every_handle(subject: Subject) -> None:
    """Another handle may revoke what this one holds."""
    job_id = subject.add()
    delivery = subject.take()
    equal(subject.open().revoke([job_id]), [True], "the answer on another handle")
    statuses = subject.transport.extend([delivery], 10.0)
    equal(statuses, [LeaseStatus.CANCEL_REQUESTED], "status")
