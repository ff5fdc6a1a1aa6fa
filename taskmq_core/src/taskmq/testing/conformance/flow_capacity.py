"""Capacity: a queue that is declared full takes no more, or makes room without losing a word."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from taskmq.envelope import Sealed
from taskmq.errors import QueueFull
from taskmq.limits import Capacity, Limit
from taskmq.states import Event, JobState
from taskmq.transport import Ack, Defer, Enqueued, Release

from .case import case
from .checks import equal, raises
from .subject import Subject

NEEDS = "capacity"


def _add(
    subject: Subject,
    batch: Sequence[Sealed],
    limit: int,
    overflow: Literal["reject", "drop_oldest"] = "reject",
) -> list[Enqueued]:
    capacity = Capacity(limit, overflow)
    return subject.transport.enqueue([Sealed(s.envelope, s.data, capacity) for s in batch])


def _refused(subject: Subject, count: int, limit: int, what: str) -> None:
    with raises(QueueFull, what):
        _add(subject, [subject.job() for _ in range(count)], limit)


@case(NEEDS)
def full_queue_takes_no_more(subject: Subject) -> None:
    """As many jobs as the capacity fit; the next is refused, with queue, depth and capacity."""
    _add(subject, [subject.job() for _ in range(3)], 3)
    job = subject.job()
    try:
        _add(subject, [job], 3)
    except QueueFull as full:
        equal((full.queue, full.depth, full.capacity), ("q", 3, 3), "what the error says")
    else:
        equal("nothing", "QueueFull", "what was raised")
    equal(subject.state(job.envelope.id), JobState.UNKNOWN, "the refused job")


@case(NEEDS)
def refused_batch_stores_nothing(subject: Subject) -> None:
    """A batch that does not fit is refused as a whole, jobs of other queues included."""
    batch = [subject.job(), subject.job(queue="other"), subject.job()]
    with raises(QueueFull, "two of three in one place"):
        _add(subject, batch, 1)
    equal(list(subject.transport.stats()), [], "queues with jobs")


@case(NEEDS)
def whatever_waits_takes_room(subject: Subject) -> None:
    """Ready, delayed and held jobs count."""
    now, one = subject.clock.now(), (Limit("concurrency", "k", 1),)
    subject.add()
    subject.add(eta=now + 50)
    subject.add_many(2, limits=one)
    subject.hold([subject.record(subject.add(priority=9)).id])
    subject.exchange(limit=0)
    _refused(subject, 1, 4, "a fifth where four wait")
    _add(subject, [subject.job()], 5)


@case(NEEDS)
def running_and_finished_jobs_take_no_room(subject: Subject) -> None:
    """Room is free as soon as a job is handed out, and taken again when it comes back."""
    subject.add()
    delivery = subject.take()
    _add(subject, [subject.job()], 1)
    subject.done(Release(delivery))
    _refused(subject, 1, 2, "a third, when the first is back")
    subject.done(Ack(subject.take()))
    _add(subject, [subject.job()], 2)


@case(NEEDS)
def stored_jobs_are_not_counted_twice(subject: Subject) -> None:
    """A repeated call, or one with a key that stands for a job, needs no room."""
    batch = [subject.job(key="k")]
    _add(subject, batch, 1)
    (again,) = _add(subject, batch, 1)
    equal(again.created, False, "created by the repetition")
    (same,) = _add(subject, [subject.job(key="k")], 1)
    equal(same.job_id, batch[0].envelope.id, "the job that the key stands for")


@case(NEEDS, "fifo")
def oldest_of_the_lowest_priority_makes_room(subject: Subject) -> None:
    """With ``drop_oldest`` the least urgent, then oldest, ready job becomes a dead letter."""
    urgent = subject.add(priority=5)
    low, low_too = subject.add_many(2, priority=-1)
    middle = subject.add()
    (added,) = _add(subject, [subject.job()], 4, "drop_oldest")
    equal(added.created, True, "created")
    record = subject.expect(low, JobState.FAILED, "after it had to make room")
    equal(record.dead_reason, "queue_full", "dead_reason")
    equal(record.history[-1].event, Event.DEAD.value, "history")
    for kept in (urgent, low_too, middle):
        subject.expect(kept, JobState.QUEUED, "when there is room for it")
    _add(subject, [subject.job(), subject.job()], 4, "drop_oldest")
    subject.expect(low_too, JobState.FAILED, "after it had to make room")
    subject.expect(middle, JobState.FAILED, "after it had to make room")
    equal(subject.transport.replay([low], {}), [True], "the dead letter can be replayed")


@case(NEEDS)
def only_ready_jobs_make_room(subject: Subject) -> None:
    """Delayed jobs are not dropped, nor are those of the batch: it is refused if that is not
    enough, and then nothing is dropped."""
    delayed = subject.add(eta=subject.clock.now() + 50)
    ready = subject.add()
    with raises(QueueFull, "two, where one can go"):
        _add(subject, [subject.job(), subject.job()], 2, "drop_oldest")
    with raises(QueueFull, "more than would ever fit"):
        _add(subject, [subject.job() for _ in range(9)], 8, "drop_oldest")
    for kept in (delayed, ready):
        subject.expect(kept, JobState.QUEUED, "when nothing was dropped")


@case(NEEDS, "dependencies")
def what_depends_on_a_dropped_job_is_skipped(subject: Subject) -> None:
    """In the store and in the batch that made it go."""
    parent = subject.add()
    child = subject.add(queue="other", after=[parent])
    late = subject.job(queue="other", after=[parent])
    _add(subject, [subject.job(), late], 1, "drop_oldest")
    for job_id in (child, late.envelope.id):
        subject.expect(job_id, JobState.SKIPPED, "after its dependency was dropped")


@case(NEEDS, "fifo", "dependencies")
def what_a_dropped_job_makes_ready_stays(subject: Subject) -> None:
    """What makes room is what was ready before: not a job that runs because another was dropped."""
    first = subject.add()
    late = subject.add(after=[first], run_if="failed")
    second = subject.add()
    _add(subject, [subject.job()], 1, "drop_oldest")
    for job_id in (first, second):
        subject.expect(job_id, JobState.FAILED, "after it had to make room")
    subject.expect(late, JobState.QUEUED, "after its dependency was dropped")


@case(NEEDS, "fifo", "dependencies")
def what_a_dropped_job_makes_ready_stays_whatever_its_line(subject: Subject) -> None:
    """Not even if it is less urgent than what has to go with that, or in the next full queue."""
    first = subject.add(priority=-1)
    late = subject.add(priority=-5, after=[first], run_if="failed")
    elsewhere = subject.add(queue="other", priority=-5, after=[first], run_if="failed")
    second = subject.add()
    third = subject.add(queue="other")
    _add(subject, [subject.job(), subject.job(queue="other")], 1, "drop_oldest")
    for job_id in (first, second, third):
        record = subject.expect(job_id, JobState.FAILED, "after it had to make room")
        equal(record.dead_reason, "queue_full", "dead_reason")
    for job_id in (late, elsewhere):
        subject.expect(job_id, JobState.QUEUED, "after its dependency was dropped")


@case(NEEDS, "workflows")
def jobs_that_are_dropped_together_fail_together(subject: Subject) -> None:
    """One whose workflow fails at once does not revoke the others that have to go with it, in
    another line or queue as well; it does revoke those that had room."""
    fields: dict[str, Any] = {"workflow": "w", "fail_fast": True}
    dropped = [subject.add(priority=priority, **fields) for priority in (-1, -1, 0)]
    dropped.append(subject.add(queue="other", **fields))
    kept = subject.add(queue="wide", **fields)
    _add(subject, [subject.job(), subject.job(queue="other")], 1, "drop_oldest")
    for job_id in dropped:
        record = subject.expect(job_id, JobState.FAILED, "after it had to make room")
        equal(record.dead_reason, "queue_full", "dead_reason")
    subject.expect(kept, JobState.REVOKED, "after its workflow failed")


@case(NEEDS)
def jobs_that_come_back_are_never_refused(subject: Subject) -> None:
    """Capacity is for new jobs: what was handed out may return to a full queue."""
    subject.add_many(2)
    first, second = subject.reserve(limit=2)
    _add(subject, [subject.job(), subject.job()], 2)
    subject.done(Release(first))
    subject.done(Defer(second, 5.0))
    _refused(subject, 1, 4, "a fifth")
