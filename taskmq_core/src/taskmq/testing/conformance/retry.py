"""Retries: a failed attempt runs again, later, in its place, and is remembered."""

from __future__ import annotations

from taskmq.records import Failure
from taskmq.states import Event, JobState
from taskmq.transport import Ack, Nack, RetryLater

from .case import case
from .checks import equal, holds, near
from .subject import FAILURE, Subject


@case()
def retried_job_is_visible_after_exactly_its_delay(subject: Subject) -> None:
    """A retry is RETRYING until its delay has passed, and is then reservable at once."""
    job_id = subject.add()
    subject.done(RetryLater(subject.take(), 7.5, FAILURE))
    record = subject.expect(job_id, JobState.RETRYING, "after a retry")
    start = subject.clock.now()
    near(record.visible_at, start + 7.5, "visible_at")
    near(subject.exchange().next_due_at, start + 7.5, "next_due_at")
    subject.clock.set(start + 7.49)
    subject.idle()
    subject.clock.set(start + 7.5)
    equal(subject.take(job_id).attempt, 2, "attempt")


@case()
def retry_counts_an_attempt_and_no_reclaim(subject: Subject) -> None:
    """Retries and reclaims are counted apart; deliveries count both."""
    subject.add()
    subject.done(RetryLater(subject.take(), 0.0, FAILURE))
    subject.done(Nack(subject.take()))
    delivery = subject.take()
    counters = (delivery.attempt, delivery.reclaims, delivery.deliveries)
    equal(counters, (2, 1, 3), "attempt, reclaims, deliveries")


@case()
def retries_have_no_ceiling_in_the_store(subject: Subject) -> None:
    """``max_deliveries`` bounds lost deliveries; how often to retry is the worker's decision."""
    job_id = subject.add(max_deliveries=2)
    for attempt in range(1, 7):
        delivery = subject.take()
        equal(delivery.attempt, attempt, "attempt")
        subject.done(RetryLater(delivery, 0.0, FAILURE))
    subject.expect(job_id, JobState.RETRYING, "after six retries")


@case("fifo")
def retried_job_keeps_its_place(subject: Subject) -> None:
    """A retry that is due comes before jobs enqueued after it."""
    first, second, third = subject.add_many(3)
    subject.done(RetryLater(subject.take(first), 1.0, FAILURE))
    subject.clock.advance(1)
    got = [delivery.job_id for delivery in subject.reserve(limit=3)]
    equal(got, [first, second, third], "the order")


@case()
def failure_of_the_last_attempt_is_kept(subject: Subject) -> None:
    """The record has the newest failure, with its traceback; a success clears it."""
    job_id = subject.add()
    subject.done(RetryLater(subject.take(), 0.0, FAILURE))
    equal(subject.record(job_id).failure, FAILURE, "failure")
    newer = Failure(type="builtins.OSError", message="ü" * 300, traceback="t" * 5_000)
    subject.done(RetryLater(subject.take(), 0.0, newer))
    equal(subject.record(job_id).failure, newer, "newer failure")
    subject.done(Ack(subject.take()))
    equal(subject.record(job_id).failure, None, "failure after success")


@case()
def history_tells_each_failed_attempt(subject: Subject) -> None:
    """Each retry leaves an entry: when, which attempt, by whom, and what went wrong."""
    job_id = subject.add()
    for worker in ("w1", "w2"):
        delivery = subject.take(worker=worker)
        subject.clock.advance(1)
        subject.done(RetryLater(delivery, 0.0, FAILURE))
    first, second = subject.record(job_id).history
    equal((first.event, second.event), (Event.RETRY.value,) * 2, "events")
    equal((first.attempt, second.attempt), (1, 2), "attempts")
    equal((first.worker, second.worker), ("w1", "w2"), "workers")
    near(second.at, subject.clock.now(), "at")
    holds("ValueError" in first.detail, "the detail names the exception")
    holds("broken" in first.detail, "the detail has the message")


@case()
def history_keeps_the_newest_twenty(subject: Subject) -> None:
    """A job's history holds 20 entries; the oldest give way."""
    job_id = subject.add()
    for _ in range(25):
        subject.done(RetryLater(subject.take(), 0.0, FAILURE))
    history = subject.record(job_id).history
    equal([entry.attempt for entry in history], list(range(6, 26)), "attempts in the history")


@case()
def history_detail_is_bounded(subject: Subject) -> None:
    """A detail holds at most 500 characters; the failure itself is kept whole."""
    job_id = subject.add()
    failure = Failure(type="builtins.ValueError", message="é" * 10_000)
    subject.done(RetryLater(subject.take(), 0.0, failure))
    record = subject.record(job_id)
    holds(len(record.history[0].detail) <= 500, "the detail has at most 500 characters")
    equal(record.failure, failure, "failure")


@case()
def replacement_envelope_takes_over(subject: Subject) -> None:
    """A retry may bring another envelope, and with it queue, priority, expiry and limits."""
    job_id = subject.add(args=[1], max_deliveries=3)
    now = subject.clock.now()
    other = subject.job(
        id=job_id, queue="other", args=[2], priority=6, expires_at=now + 60, max_deliveries=9
    )
    subject.done(RetryLater(subject.take(), 5.0, FAILURE, other))
    record = subject.expect(job_id, JobState.RETRYING, "after a retry with another envelope")
    equal((record.queue, record.priority, record.max_deliveries), ("other", 6, 9), "its columns")
    near(record.expires_at, now + 60, "expires_at")
    near(record.visible_at, now + 5, "visible_at")
    subject.clock.advance(5)
    subject.idle()
    delivery = subject.take(job_id, queues=["other"])
    equal((delivery.envelope, delivery.priority), (other.data, 6), "envelope and priority")
    equal(delivery.attempt, 2, "attempt")


@case()
def replaced_envelope_leaves_no_trace(subject: Subject) -> None:
    """What the former envelope said, its queue and its lease there, counts no longer."""
    job_id = subject.add(expires_at=subject.clock.now() + 30)
    other = subject.job(id=job_id, queue="other")
    subject.done(RetryLater(subject.take(lease=20.0), 5.0, FAILURE, other))
    equal([stats.queue for stats in subject.transport.stats()], ["other"], "queues in use")
    subject.clock.advance(40)
    answer = subject.exchange(queues=["q"])
    equal((list(answer.deliveries), list(answer.dropped)), ([], []), "in its former queue")
    record = subject.expect(job_id, JobState.RETRYING, "past its former lease and expiry")
    equal(record.reclaims, 0, "reclaims")
    delivery = subject.take(job_id, queues=["other"])
    equal(subject.transport.stats(["other"])[0].running, 1, "running in its new queue")
    subject.done(Ack(delivery))


@case()
def replacement_may_drop_the_expiry(subject: Subject) -> None:
    """An envelope without expiry, put in the place of one with, never expires."""
    job_id = subject.add(expires_at=subject.clock.now() + 10)
    subject.done(RetryLater(subject.take(), 0.0, FAILURE, subject.job(id=job_id)))
    subject.clock.advance(1_000)
    subject.transport.maintain()
    subject.take(job_id)


@case()
def retry_waits_as_long_as_it_says(subject: Subject) -> None:
    """A delay of days is kept as exactly as one of milliseconds."""
    for delay in (0.001, 1.0, 30 * 86_400.0):
        job_id = subject.add()
        subject.done(RetryLater(subject.take(job_id), delay, FAILURE))
        near(subject.record(job_id).visible_at, subject.clock.now() + delay, "visible_at")
        subject.clock.advance(delay)
        subject.done(Ack(subject.take(job_id)))
