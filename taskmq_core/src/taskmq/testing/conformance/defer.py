"""Giving back unstarted: release and defer cost nothing but time."""

from __future__ import annotations

from taskmq.states import JobState
from taskmq.transport import Defer, Release

from .case import case
from .checks import equal, near
from .subject import Subject


@case()
def deferred_job_is_visible_after_its_delay(subject: Subject) -> None:
    """A defer moves visibility to now + delay, exactly."""
    job_id = subject.add()
    subject.done(Defer(subject.take(), 12.0))
    start = subject.clock.now()
    record = subject.expect(job_id, JobState.QUEUED, "after a defer")
    near(record.visible_at, start + 12, "visible_at")
    near(subject.exchange().next_due_at, start + 12, "next_due_at")
    subject.clock.set(start + 11.99)
    subject.idle()
    subject.clock.set(start + 12)
    subject.take(job_id)


@case()
def defer_costs_no_delivery(subject: Subject) -> None:
    """However often a job is deferred, its counters stay."""
    job_id = subject.add(max_deliveries=2)
    for _ in range(10):
        delivery = subject.take()
        counters = (delivery.deliveries, delivery.reclaims, delivery.attempt)
        equal(counters, (1, 0, 1), "deliveries, reclaims, attempt")
        subject.done(Defer(delivery, 0.0))
    record = subject.record(job_id)
    equal((record.deliveries, record.reclaims, record.history), (0, 0, ()), "in the end")


@case()
def released_job_is_visible_at_once(subject: Subject) -> None:
    """A release is a reservation undone: same visibility, no delivery counted."""
    job_id = subject.add()
    before = subject.record(job_id)
    subject.clock.advance(5)
    subject.done(Release(subject.take(worker="worker-1")))
    record = subject.expect(job_id, JobState.QUEUED, "after a release")
    near(record.visible_at, before.visible_at, "visible_at")
    equal((record.deliveries, record.reclaims, record.history), (0, 0, ()), "counters")
    subject.take(job_id, worker="worker-2")


@case("fifo")
def released_jobs_keep_their_place(subject: Subject) -> None:
    """Released jobs come back in their old order, before what was enqueued meanwhile."""
    ids = subject.add_many(4)
    held = subject.reserve(limit=3)
    newer = subject.add()
    subject.settle(*(Release(delivery) for delivery in (held[2], held[0], held[1])))
    got = [delivery.job_id for delivery in subject.reserve(limit=9)]
    equal(got, [*ids, newer], "the order")


@case("fifo")
def deferred_job_keeps_its_place(subject: Subject) -> None:
    """A deferred job that is due comes before those enqueued after it."""
    first, second = subject.add_many(2)
    subject.done(Defer(subject.take(first), 1.0))
    subject.clock.advance(1)
    equal([d.job_id for d in subject.reserve(limit=2)], [first, second], "the order")


@case()
def releases_are_counted_as_yields(subject: Subject) -> None:
    """Each release counts a yield, so that a worker can see when to keep a job; a defer none."""
    subject.add()
    for yields in range(4):
        delivery = subject.take()
        equal((delivery.yields, delivery.deliveries), (yields, 1), "yields and deliveries")
        subject.done(Release(delivery))
    subject.done(Defer(subject.take(), 0.0))
    equal(subject.take().yields, 4, "yields after a defer")


@case("global_priority")
def release_makes_way_for_the_urgent(subject: Subject) -> None:
    """One exchange gives unstarted jobs back and takes the urgent one that has arrived."""
    subject.add_many(2)
    held = subject.reserve(limit=2)
    urgent = subject.add(priority=9, queue="other")
    both = ["q", "other"]
    answer = subject.exchange([Release(delivery) for delivery in held], limit=1, queues=both)
    equal([d.job_id for d in answer.deliveries], [urgent], "reserved")
    equal(answer.waiting_priority, 0, "waiting_priority")
