"""Parking: a job that no worker here can run waits for one that can, and not for ever."""

from __future__ import annotations

from taskmq.records import JobFilter
from taskmq.states import Event, JobState
from taskmq.transport import Ack, Defer, Delivery, RetryLater

from .case import case
from .checks import equal, holds, near
from .subject import FAILURE, Subject

TTL = 1_000.0


def _park(subject: Subject, delivery: Delivery, delay: float = 60.0) -> None:
    subject.done(Defer(delivery, delay, "unknown_task", TTL))


@case()
def parked_job_says_why_and_since_when(subject: Subject) -> None:
    """A parked job is QUEUED, delayed, and has a reason; the delivery is not counted."""
    job_id = subject.add()
    subject.clock.advance(3)
    _park(subject, subject.take())
    record = subject.expect(job_id, JobState.QUEUED, "when parked")
    equal((record.parked_reason, record.deliveries), ("unknown_task", 0), "reason, deliveries")
    near(record.parked_at, subject.clock.now(), "parked_at")
    near(record.visible_at, subject.clock.now() + 60, "visible_at")
    subject.idle()
    (stats,) = subject.transport.stats(["q"])
    equal((stats.parked, stats.delayed, stats.ready), (1, 1, 0), "parked, delayed, ready")


@case()
def parked_jobs_can_be_found(subject: Subject) -> None:
    """``parked`` in a filter is true for parked jobs only, false for all others."""
    parked, other = subject.add_many(2)
    _park(subject, subject.take(parked))
    found = [record.id for record in subject.transport.find(JobFilter(parked=True))]
    equal(found, [parked], "parked jobs")
    found = [record.id for record in subject.transport.find(JobFilter(parked=False))]
    equal(found, [other], "others")


@case()
def parked_job_is_offered_again_after_its_delay(subject: Subject) -> None:
    """Any worker may look at it when its delay has passed; it knows since when it waits."""
    job_id = subject.add()
    first_at = subject.clock.now()
    for _ in range(3):
        delivery = subject.take(job_id)
        _park(subject, delivery)
        near(subject.record(job_id).parked_at, first_at, "parked_at, of the first park")
        subject.clock.advance(60)
    near(subject.take(job_id).parked_at, first_at, "parked_at of the delivery")


@case("workflows")
def parked_jobs_of_a_workflow_die_together(subject: Subject) -> None:
    """Those whose patience ends in one step become dead letters, though one of them fails fast."""
    for job_id in subject.add_many(2, workflow="w", fail_fast=True):
        _park(subject, subject.take(job_id))
    other = subject.add(workflow="w")
    subject.clock.advance(TTL)
    report = subject.transport.maintain()
    equal([each.reason for each in report.dropped], ["unknown_task"] * 2, "dropped")
    subject.expect(other, JobState.REVOKED, "of the same workflow")


@case()
def unpark_makes_jobs_of_these_tasks_visible(subject: Subject) -> None:
    """`unpark` offers the parked jobs of the tasks at once, and counts them."""
    a1, b, a2 = (subject.add(task) for task in ("demo.a", "demo.b", "demo.a"))
    for delivery in subject.reserve(limit=3):
        _park(subject, delivery)
    subject.clock.advance(5)
    equal(subject.transport.unpark(["demo.none"]), 0, "of no known task")
    equal(subject.transport.unpark([]), 0, "of no task")
    subject.idle()
    equal(subject.transport.unpark(["demo.a", "demo.c"]), 2, "unparked")
    near(subject.record(a1).visible_at, subject.clock.now(), "visible_at")
    equal(sorted(d.job_id for d in subject.reserve(limit=9)), sorted([a1, a2]), "reservable")
    equal(subject.record(b).parked_reason, "unknown_task", "the other stays parked")


@case()
def unpark_counts_what_it_made_visible(subject: Subject) -> None:
    """A parked job whose delay has passed is visible already, and not counted."""
    subject.add()
    _park(subject, subject.take(), 60.0)
    subject.clock.advance(60)
    equal(subject.transport.unpark(["demo.task"]), 0, "unparked")
    subject.take()


@case()
def unpark_leaves_other_jobs_alone(subject: Subject) -> None:
    """Jobs of the task that are delayed for another reason, or held, are not touched."""
    delayed = subject.add("demo.a", eta=subject.clock.now() + 50)
    retried, held = subject.add("demo.a"), subject.add("demo.a")
    subject.done(RetryLater(subject.take(retried), 50.0, FAILURE))
    subject.take(held)
    equal(subject.transport.unpark(["demo.a"]), 0, "unparked")
    subject.idle()
    subject.expect(held, JobState.RUNNING, "after an unpark")
    near(subject.record(delayed).visible_at, subject.clock.now() + 50, "visible_at")


@case()
def settled_otherwise_it_is_parked_no_longer(subject: Subject) -> None:
    """Once a worker could run it, the park is over; a later one starts afresh."""
    job_id = subject.add()
    _park(subject, subject.take(), 0.0)
    subject.done(RetryLater(subject.take(), 10.0, FAILURE))
    record = subject.record(job_id)
    equal((record.parked_reason, record.parked_at), (None, None), "after a retry")
    subject.clock.advance(10)
    _park(subject, subject.take(), 0.0)
    near(subject.record(job_id).parked_at, subject.clock.now(), "parked_at of the second park")
    subject.take(lease=5.0)
    subject.clock.advance(5)
    subject.exchange(limit=0)
    record = subject.record(job_id)
    equal((record.parked_reason, record.parked_at), (None, None), "after a reclaim")
    _park(subject, subject.take(), 0.0)
    subject.done(Ack(subject.take()))
    equal(subject.record(job_id).parked_reason, None, "after its success")


@case()
def job_parked_for_too_long_becomes_a_dead_letter(subject: Subject) -> None:
    """``park_ttl`` after the first park, `maintain` makes it a dead letter with that reason."""
    job_id = subject.add()
    start = subject.clock.now()
    _park(subject, subject.take())
    subject.clock.set(start + TTL - 1)
    _park(subject, subject.take())
    equal(subject.transport.maintain().dead, 0, "dead letters, a second too early")
    subject.clock.set(start + TTL)
    equal(subject.transport.maintain().dead, 1, "dead letters")
    record = subject.expect(job_id, JobState.FAILED, "after its threshold")
    equal((record.dead_reason, record.parked_reason), ("unknown_task", None), "reasons")
    equal(record.history[-1].event, Event.DEAD.value, "history")
    subject.idle()


@case()
def held_job_is_not_parked_to_death(subject: Subject) -> None:
    """A job that somebody holds when its threshold passes is left to him."""
    job_id = subject.add()
    _park(subject, subject.take(), 0.0)
    delivery = subject.take(lease=2 * TTL)
    subject.clock.advance(TTL)
    subject.transport.maintain()
    subject.expect(job_id, JobState.RUNNING, "after the threshold")
    subject.done(Ack(delivery))


@case()
def replayed_job_is_parked_afresh(subject: Subject) -> None:
    """A dead letter that was parked for too long may be replayed and parked again."""
    job_id = subject.add()
    _park(subject, subject.take())
    subject.clock.advance(TTL)
    subject.transport.maintain()
    equal(subject.transport.replay([job_id], {}), [True], "replayed")
    _park(subject, subject.take(job_id))
    holds(subject.transport.maintain().dead == 0, "it is not dead again at once")
    near(subject.record(job_id).parked_at, subject.clock.now(), "parked_at")
