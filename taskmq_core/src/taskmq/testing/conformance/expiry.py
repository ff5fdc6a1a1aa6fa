"""Expiry: a job that nobody started in time never runs, and says so."""

from __future__ import annotations

from taskmq.states import JobState
from taskmq.transport import Ack, Expire, Nack, Release, RetryLater

from .case import case
from .checks import equal, near
from .subject import FAILURE, Subject


@case()
def expired_job_is_never_delivered(subject: Subject) -> None:
    """From ``expires_at`` on a job is EXPIRED instead of delivered, and reported as dropped."""
    start = subject.clock.now()
    in_time, late = (subject.add("demo.mail", expires_at=start + 10) for _ in range(2))
    subject.clock.set(start + 9.99)
    subject.take(in_time)
    subject.clock.set(start + 10)
    answer = subject.exchange(limit=10)
    equal(list(answer.deliveries), [], "deliveries")
    dropped = [(drop.job_id, drop.task, drop.queue, drop.reason) for drop in answer.dropped]
    equal(dropped, [(late, "demo.mail", "q", "expired")], "dropped")
    record = subject.expect(late, JobState.EXPIRED, "after its expiry")
    near(record.finished_at, start + 10, "finished_at")
    equal(record.deliveries, 0, "deliveries that count")
    equal(list(subject.exchange(limit=10).dropped), [], "dropped again")


@case()
def expired_jobs_do_not_stand_in_the_way(subject: Subject) -> None:
    """A reservation gets past any number of expired jobs to a live one."""
    expired = subject.add_many(300, priority=5, expires_at=subject.clock.now() + 1)
    alive = subject.add()
    subject.clock.advance(1)
    answer = subject.exchange(limit=1)
    equal([d.job_id for d in answer.deliveries], [alive], "deliveries")
    equal(sorted(drop.job_id for drop in answer.dropped), sorted(expired), "dropped")


@case()
def maintain_drops_expired_jobs(subject: Subject) -> None:
    """Without any worker, `maintain` ends expired jobs of every queue and counts them."""
    ids = [subject.add(queue=queue, expires_at=subject.clock.now() + 5) for queue in "abc"]
    equal(subject.transport.maintain().expired, 0, "expired, too early")
    subject.clock.advance(5)
    equal(subject.transport.maintain().expired, 3, "expired")
    for job_id in ids:
        subject.expect(job_id, JobState.EXPIRED, "after maintain")
    equal(subject.transport.maintain().expired, 0, "expired again")


@case()
def delayed_job_may_expire_before_it_is_visible(subject: Subject) -> None:
    """A job whose expiry comes before its ``eta`` never runs."""
    now = subject.clock.now()
    job_id = subject.add(eta=now + 100, expires_at=now + 50)
    subject.clock.advance(50)
    equal(subject.transport.maintain().expired, 1, "expired")
    subject.expect(job_id, JobState.EXPIRED, "before its eta")
    subject.clock.advance(50)
    subject.idle()


@case()
def running_job_does_not_expire(subject: Subject) -> None:
    """Expiry is for jobs that have not started: one that runs may finish."""
    job_id = subject.add(expires_at=subject.clock.now() + 5)
    delivery = subject.take()
    subject.clock.advance(50)
    subject.transport.maintain()
    subject.expect(job_id, JobState.RUNNING, "past its expiry")
    subject.done(Ack(delivery))
    subject.expect(job_id, JobState.SUCCEEDED, "in the end")


@case()
def job_that_is_given_back_may_expire(subject: Subject) -> None:
    """Released, lost and retried jobs expire as if they had never been held."""
    ids = [subject.add(expires_at=subject.clock.now() + 5) for _ in range(4)]
    released, nacked, retried, lost = subject.reserve(limit=4, lease=5.0)
    subject.clock.advance(5)
    subject.settle(Release(released), Nack(nacked), RetryLater(retried, 0.0, FAILURE))
    answer = subject.exchange(limit=9)
    equal(list(answer.deliveries), [], "deliveries")
    equal(sorted(drop.job_id for drop in answer.dropped), sorted(ids), "dropped")
    equal(subject.record(lost.job_id).reclaims, 1, "reclaims of the lost one")


@case()
def worker_may_find_a_job_expired(subject: Subject) -> None:
    """The settlement Expire ends a delivery that was too late."""
    job_id = subject.add()
    subject.done(Expire(subject.take()))
    record = subject.expect(job_id, JobState.EXPIRED, "after Expire")
    near(record.finished_at, subject.clock.now(), "finished_at")
    subject.idle()


@case("dependencies")
def job_that_waits_for_others_may_expire(subject: Subject) -> None:
    """A job that still waits for its dependencies at its expiry is EXPIRED."""
    first = subject.add()
    waiting = subject.add(after=[first], expires_at=subject.clock.now() + 5)
    behind = subject.add(after=[waiting])
    subject.clock.advance(5)
    equal(subject.transport.maintain().expired, 1, "expired")
    subject.expect(waiting, JobState.EXPIRED, "while it waited")
    subject.expect(behind, JobState.SKIPPED, "after its dependency expired")
    subject.done(Ack(subject.take(first)))
    subject.idle()


@case("dependencies")
def expired_together_means_expired(subject: Subject) -> None:
    """Of jobs that expire in one step, the dependent is EXPIRED, not skipped, in whichever queue
    it is and however many stand between."""
    for turn in range(2):
        at = subject.clock.now() + 5
        first = subject.add(queue="ab"[turn], expires_at=at)
        second = subject.add(queue="ba"[turn], after=[first], expires_at=at)
        between = subject.add(after=[second])
        last = subject.add(queue="ab"[turn], after=[between], expires_at=at)
        subject.clock.advance(5)
        if turn:
            dropped = {drop.job_id for drop in subject.exchange(queues=["a", "b"]).dropped}
            equal(dropped, {first, second, last}, "dropped")
        else:
            equal(subject.transport.maintain().expired, 3, "expired")
        for job_id in (first, second, last):
            subject.expect(job_id, JobState.EXPIRED, "at its expiry")
        subject.expect(between, JobState.SKIPPED, "after its dependency expired")
