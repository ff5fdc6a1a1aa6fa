"""Rate limits: never more than they say, in no hurry and without holding up others."""

from __future__ import annotations

from taskmq.limits import Limit
from taskmq.states import JobState
from taskmq.transport import Ack, Defer, Delivery, Release, RetryLater

from .case import case
from .checks import equal, holds, near, present
from .subject import FAILURE, Subject

TEN_A_MINUTE = (Limit("rate", "demo.task", 10, 60.0),)
BURST_OF_THREE = (Limit("rate", "demo.task", 10, 60.0, 3),)
NEEDS = "limits"


def _ids(deliveries: list[Delivery]) -> list[str]:
    return [delivery.job_id for delivery in deliveries]


@case(NEEDS, "fifo")
def jobs_start_evenly_spaced(subject: Subject) -> None:
    """One job an interval, the oldest first, and `next_due_at` says when."""
    ids = subject.add_many(4, limits=TEN_A_MINUTE)
    for job_id in ids:
        answer = subject.exchange(limit=9)
        equal(_ids(list(answer.deliveries)), [job_id], "deliveries of an interval")
        subject.done(Ack(answer.deliveries[0]))
        if job_id != ids[-1]:
            due = present(subject.exchange(limit=9).next_due_at, "next_due_at")
            near(due, subject.clock.now() + 6.0, "next_due_at")
            subject.clock.set(due)


@case(NEEDS)
def moment_too_early_is_too_early(subject: Subject) -> None:
    """A job starts from its instant on, not before."""
    subject.add_many(2, limits=TEN_A_MINUTE)
    subject.take()
    subject.clock.advance(5.999)
    subject.idle()
    subject.clock.advance(0.001)
    subject.take()


@case(NEEDS)
def pause_allows_no_more_than_the_burst(subject: Subject) -> None:
    """However long nobody looked, ``burst`` jobs start at once, and then one an interval."""
    subject.add_many(9, limits=BURST_OF_THREE)
    equal(len(subject.reserve(limit=9)), 3, "deliveries at first")
    subject.clock.advance(3_600)
    equal(len(subject.reserve(limit=9)), 3, "deliveries after an hour")
    subject.clock.advance(6)
    equal(len(subject.reserve(limit=9)), 1, "deliveries an interval later")
    subject.clock.advance(12)
    equal(len(subject.reserve(limit=9)), 2, "deliveries two intervals later")


@case(NEEDS)
def rate_is_that_of_the_fleet(subject: Subject) -> None:
    """All workers on all handles share it."""
    subject.add_many(3, limits=TEN_A_MINUTE)
    subject.take(worker="a")
    subject.transport = subject.open()
    subject.idle(worker="b")


@case(NEEDS)
def limited_jobs_do_not_hold_up_others(subject: Subject) -> None:
    """What stands behind any number of limited jobs is handed out by the same exchange."""
    subject.add_many(500, limits=TEN_A_MINUTE, priority=3)
    plain = subject.add()
    got = _ids(subject.reserve(limit=3))
    equal(len(got), 2, "deliveries")
    equal(got[1], plain, "the job behind them")


@case(NEEDS)
def many_that_become_due_together_do_not_hold_up_others(subject: Subject) -> None:
    """The same for jobs that were delayed and are all due now."""
    subject.add_many(500, limits=TEN_A_MINUTE, eta=subject.clock.now() + 5, priority=3)
    plain = subject.add(eta=subject.clock.now() + 5)
    subject.clock.advance(5)
    got = _ids(subject.reserve(limit=3))
    equal(got[1:], [plain], "deliveries behind the limited one")


@case(NEEDS)
def waiting_for_the_rate_spends_nothing(subject: Subject) -> None:
    """A job that waits is QUEUED and has no delivery."""
    ids = subject.add_many(3, limits=TEN_A_MINUTE)
    subject.take()
    subject.idle()
    for job_id in ids[1:]:
        record = subject.expect(job_id, JobState.QUEUED, "while it waits")
        equal(record.deliveries, 0, "deliveries")
    equal(present(subject.record(ids[2]).held, "what holds it").limit, TEN_A_MINUTE[0], "limit")


@case(NEEDS)
def every_start_counts(subject: Subject) -> None:
    """A retry and a job that was deferred start again, and count again."""
    subject.add(limits=TEN_A_MINUTE)
    subject.done(RetryLater(subject.take(), 0.0, FAILURE))
    subject.idle()
    subject.clock.advance(6)
    subject.done(Defer(subject.take(), 0.0))
    subject.idle()
    subject.clock.advance(6)
    subject.take()


@case(NEEDS)
def released_job_has_not_started(subject: Subject) -> None:
    """A job that is given back unstarted does not count."""
    subject.add(limits=TEN_A_MINUTE)
    subject.done(Release(subject.take()))
    subject.take()
    subject.idle()


@case(NEEDS)
def all_limits_of_a_job_count(subject: Subject) -> None:
    """A job starts when every one of its limits lets it, and takes nothing before."""
    slow, fast = Limit("rate", "slow", 1, 60.0), Limit("rate", "fast", 1, 6.0)
    one = Limit("concurrency", "one", 1)
    subject.add_many(2, limits=(one, slow, fast))
    other = subject.add(limits=(fast,))
    first = subject.reserve(limit=9, lease=600.0)
    equal(len(first), 1, "deliveries at first")
    subject.clock.advance(6)
    subject.take(other)
    subject.clock.advance(54)
    subject.idle()
    subject.done(Ack(first[0]))
    subject.take()


@case(NEEDS)
def purged_and_revoked_jobs_leave_no_gap(subject: Subject) -> None:
    """Who goes without starting has not used anything up, and blocks nobody."""
    ids = subject.add_many(50, limits=TEN_A_MINUTE)
    last = subject.add(limits=TEN_A_MINUTE)
    subject.take()
    subject.idle()
    subject.transport.revoke(ids)
    subject.clock.advance(6)
    subject.take(last)
    subject.add_many(50, limits=TEN_A_MINUTE)
    subject.idle()
    subject.transport.purge("q")
    subject.clock.advance(6)
    subject.take(subject.add(limits=TEN_A_MINUTE))


@case(NEEDS, "global_priority")
def urgent_job_takes_the_next_turn(subject: Subject) -> None:
    """Among jobs that wait for the same rate, priority goes before age."""
    subject.add_many(5, limits=TEN_A_MINUTE)
    subject.take()
    urgent = subject.add(limits=TEN_A_MINUTE, priority=4)
    subject.idle()
    subject.clock.advance(6)
    subject.take(urgent)


@case(NEEDS)
def expired_turn_is_taken_by_the_next(subject: Subject) -> None:
    """A job that expires while its turn comes does not block those behind it."""
    subject.take(subject.add(limits=TEN_A_MINUTE))
    fleeting = subject.add(limits=TEN_A_MINUTE, expires_at=subject.clock.now() + 3)
    lasting = subject.add(limits=TEN_A_MINUTE)
    subject.idle()
    subject.clock.advance(6)
    subject.take(lasting)
    subject.expect(fleeting, JobState.EXPIRED, "after its time")


@case(NEEDS)
def maintenance_forgets_no_rate_too_early(subject: Subject) -> None:
    """`maintain` may drop what a rate remembers only when that makes no difference."""
    subject.add_many(2, limits=TEN_A_MINUTE)
    subject.take()
    subject.clock.advance(5)
    subject.transport.maintain()
    subject.idle()
    subject.clock.advance(1)
    subject.transport.maintain()
    holds(len(subject.reserve(limit=9)) == 1, "the second starts on time")
