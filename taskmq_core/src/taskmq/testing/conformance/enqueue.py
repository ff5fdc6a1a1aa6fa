"""Storing jobs: all of a batch or none, in order, as they were given."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from taskmq.envelope import Sealed, seal
from taskmq.errors import TransportError, UnknownDependency
from taskmq.records import JobFilter
from taskmq.states import JobState
from taskmq.transport import Ack, Enqueued

from .case import case
from .checks import equal, near, raises
from .subject import Subject


@case()
def stored_job_says_what_its_envelope_says(subject: Subject) -> None:
    """A new job is QUEUED, counted nowhere, and described by its envelope."""
    sealed = subject.job(
        "demo.mail",
        "mail",
        priority=4,
        expires_at=subject.clock.now() + 90,
        max_deliveries=7,
        workflow="wf",
    )
    answers = subject.transport.enqueue([sealed])
    equal(answers, [Enqueued(sealed.envelope.id, created=True)], "the answer")
    record = subject.expect(sealed.envelope.id, JobState.QUEUED, "after its enqueue")
    equal(record.id, sealed.envelope.id, "id")
    equal((record.task, record.queue, record.priority), ("demo.mail", "mail", 4), "what and where")
    equal((record.max_deliveries, record.workflow), (7, "wf"), "ceiling and workflow")
    equal((record.attempt, record.deliveries, record.reclaims), (1, 0, 0), "counters")
    equal((record.pending, record.cancel_requested), (0, False), "pending and cancel_requested")
    near(record.expires_at, subject.clock.now() + 90, "expires_at")
    near(record.enqueued_at, subject.clock.now(), "enqueued_at")
    near(record.visible_at, subject.clock.now(), "visible_at")
    unset = (record.started_at, record.finished_at, record.lease_until, record.worker)
    equal(unset, (None,) * 4, "what has not happened")
    unset_too = (record.result, record.failure, record.dead_reason, record.parked_reason)
    equal(unset_too, (None,) * 4, "what may never happen")
    equal(record.history, (), "history")


@case()
def envelope_bytes_are_kept_as_they_are(subject: Subject) -> None:
    """Readers and workers get the very bytes that were stored."""
    sealed = subject.job(args=["é", 1, None], kwargs={"a": [1.5]}, headers={"x": {"y": "ü"}})
    subject.transport.enqueue([sealed])
    equal(subject.record(sealed.envelope.id).envelope, sealed.data, "the stored envelope")
    equal(subject.take().envelope, sealed.data, "the delivered envelope")


@case()
def jobs_of_one_pattern_are_stored_like_any_others(subject: Subject) -> None:
    """Jobs that share all but their own fields, in a batch with others and with known ones."""
    now = subject.clock.now()

    def alike(count: int, **fields: Any) -> list[Sealed]:
        pattern = subject.job(**fields).envelope
        made = [replace(pattern, id=subject.job().envelope.id) for _ in range(count)]
        return [Sealed(one, seal(one, 10_000).data, None, pattern) for one in made]

    first, second = alike(63, priority=2), alike(2, eta=now + 60, task="demo.later")
    subject.transport.enqueue(first[:1])
    batch = [*first, subject.job(task="demo.other"), *second, first[5]]
    created = [one.created for one in subject.transport.enqueue(batch)]
    equal(created, [False, *[True] * 65, False], "which of them are new")
    ids = [one.envelope.id for one in batch[:-1]]
    records = subject.transport.find(JobFilter(limit=100))
    equal([record.id for record in records], ids, "the stored jobs")
    equal([record.envelope for record in records], [one.data for one in batch[:-1]], "envelopes")
    equal([record.priority for record in records], [2] * 63 + [0] * 3, "priorities")
    equal([record.task for record in records[-3:]], ["demo.other"] + ["demo.later"] * 2, "tasks")
    near(records[-1].visible_at, now + 60, "visible_at of a later one")
    near(records[0].visible_at, now, "visible_at of others")


@case()
def batch_is_stored_in_its_order(subject: Subject) -> None:
    """Jobs are listed in the order in which they were enqueued, whatever their ids."""
    ids = [f"01ZZZZZZZZZZZZZZZZZZZZZZ{number:02}" for number in (7, 1, 9, 3, 5)]
    answers = subject.transport.enqueue([subject.job(id=job_id) for job_id in ids])
    equal([answer.job_id for answer in answers], ids, "the answers")
    equal([record.id for record in subject.transport.find(JobFilter())], ids, "the stored jobs")


@case()
def empty_batch_is_nothing(subject: Subject) -> None:
    """Enqueueing nothing is allowed."""
    equal(subject.transport.enqueue([]), [], "the answer")
    equal(subject.transport.find(JobFilter()), [], "the stored jobs")


@case("fifo")
def large_batch_is_stored_whole(subject: Subject) -> None:
    """A batch of 5,000 is stored in one call and comes back in order."""
    ids = subject.add_many(5_000)
    got = [delivery.job_id for delivery in subject.reserve(limit=5_000)]
    equal(len(got), 5_000, "deliveries")
    equal(got == ids, True, "the order of the batch is kept")


@case()
def stored_id_is_left_as_it_is(subject: Subject) -> None:
    """A second enqueue of an id stores nothing and says so: a repeated call is harmless."""
    sealed = subject.job(args=[1])
    other = subject.job("demo.other", "elsewhere", id=sealed.envelope.id)
    subject.transport.enqueue([sealed])
    for again in (sealed, other):
        answer = subject.transport.enqueue([again])
        equal(answer, [Enqueued(sealed.envelope.id, created=False)], "the answer")
    equal(subject.record(sealed.envelope.id).task, "demo.task", "the stored task")
    equal(len(subject.reserve(limit=10, queues=["q", "elsewhere"])), 1, "deliveries")


@case()
def stored_id_stays_in_whatever_state_it_is(subject: Subject) -> None:
    """A second enqueue neither restarts a running job nor revives a finished one."""
    sealed = subject.job()
    subject.transport.enqueue([sealed])
    delivery = subject.take()
    subject.transport.enqueue([sealed])
    subject.expect(delivery.job_id, JobState.RUNNING, "after a repeated enqueue")
    subject.done(Ack(delivery))
    subject.transport.enqueue([sealed])
    subject.expect(delivery.job_id, JobState.SUCCEEDED, "after a repeated enqueue")
    subject.idle()


@case()
def id_twice_in_one_batch_is_stored_once(subject: Subject) -> None:
    """The second of two equal ids in a batch is not created."""
    sealed = subject.job()
    answers = subject.transport.enqueue([sealed, subject.job(), sealed])
    equal([answer.created for answer in answers], [True, True, False], "created")
    equal(len(subject.reserve(limit=10)), 2, "deliveries")


@case()
def every_priority_is_kept(subject: Subject) -> None:
    """Priorities from -9 to 9 come back as they were given."""
    ids = {priority: subject.add(priority=priority) for priority in range(-9, 10)}
    got = {priority: subject.record(job_id).priority for priority, job_id in ids.items()}
    equal(got, {priority: priority for priority in range(-9, 10)}, "priorities")


@case()
def queue_and_task_names_are_free_text(subject: Subject) -> None:
    """Names may hold any character."""
    for name in ("a b", "ü-ß", "semi;colon'quote\"", "per%cent_under", "{brace}:*", "x" * 200):
        job_id = subject.add(f"task {name}", name)
        delivery = subject.take(job_id, queues=[name])
        equal(delivery.queue, name, "the queue of the delivery")
        equal(subject.record(job_id).task, f"task {name}", "the task")


@case()
def eta_delays_a_job(subject: Subject) -> None:
    """A job with an ``eta`` is reservable from that instant on, and not before."""
    start = subject.clock.now()
    job_id = subject.add(eta=start + 30)
    near(subject.record(job_id).visible_at, start + 30, "visible_at")
    subject.idle()
    subject.clock.set(start + 29.99)
    subject.idle()
    subject.clock.set(start + 30)
    subject.take(job_id)


@case()
def eta_in_the_past_is_now(subject: Subject) -> None:
    """An ``eta`` that has passed delays nothing."""
    job_id = subject.add(eta=subject.clock.now() - 1000)
    near(subject.record(job_id).visible_at, subject.clock.now(), "visible_at")
    subject.take(job_id)


@case("dependencies")
def refused_batch_stores_nothing(subject: Subject) -> None:
    """If one job of a batch is refused, none of it is stored."""
    batch = [subject.job(), subject.job(after=["01UNKNOWN"]), subject.job()]
    with raises(UnknownDependency, "a batch with an unknown dependency"):
        subject.transport.enqueue(batch)
    equal(issubclass(UnknownDependency, TransportError), True, "it is a TransportError")
    equal(subject.transport.find(JobFilter()), [], "the stored jobs")
    subject.idle()
