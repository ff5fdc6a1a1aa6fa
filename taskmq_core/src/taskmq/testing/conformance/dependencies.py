"""Jobs that wait for jobs, and what is handed over."""

from __future__ import annotations

from taskmq.codec import Payload
from taskmq.envelope import Dependency
from taskmq.errors import UnknownDependency
from taskmq.records import Readied
from taskmq.states import JobState
from taskmq.transport import Ack, DeadLetter, Nack, RetryLater, Settled

from .case import case
from .checks import equal, holds, near, present, raises
from .subject import FAILURE, LEASE, Subject, text

S = JobState


def _die(subject: Subject, job_id: str) -> None:
    subject.done(DeadLetter(subject.take(job_id), "error", FAILURE))


def _succeed(subject: Subject, job_id: str, value: str = "value") -> None:
    subject.done(Ack(subject.take(job_id), text(value)))


def _states(subject: Subject, *job_ids: str) -> list[JobState]:
    return [subject.state(job_id) for job_id in job_ids]


@case("dependencies")
def job_waits_for_what_it_names(subject: Subject) -> None:
    """A job with dependencies is WAITING and not reservable until all have succeeded."""
    a, b = subject.add_many(2)
    waiting = subject.add(after=[a, b])
    equal(subject.expect(waiting, S.WAITING, "at first").pending, 2, "pending")
    _succeed(subject, a)
    equal(subject.expect(waiting, S.WAITING, "after one success").pending, 1, "pending")
    delivery = subject.take(b)
    subject.idle()
    subject.clock.advance(5)
    subject.done(Ack(delivery))
    record = subject.expect(waiting, S.QUEUED, "after both")
    equal(record.pending, 0, "pending")
    near(record.visible_at, subject.clock.now(), "visible_at")
    subject.take(waiting)


@case("dependencies")
def ack_and_what_it_sets_free_are_one_step(subject: Subject) -> None:
    """The exchange that acks the last dependency can already reserve the dependent."""
    first = subject.add()
    second = subject.add(after=[first], queue="other")
    held = subject.take(first)
    answer = subject.exchange([Ack(held)], queues=["q", "other"])
    equal([d.job_id for d in answer.deliveries], [second], "reserved by the same exchange")


@case("dependencies")
def exchange_names_what_it_made_ready(subject: Subject) -> None:
    """What waits for nothing any more by its settlements, with its place; and nothing else."""
    a, b, c = subject.add_many(3)
    join = subject.add(after=[a, b], queue="other", priority=3)
    late = subject.add(after=[a], eta=subject.clock.now() + 60)
    chained = subject.add(after=[join])
    first, second, third = subject.hold([a, b, c])
    now = subject.clock.now()
    answer = subject.transport.exchange([Ack(first), Ack(third)])
    equal(list(answer.readied), [Readied(late, "q", 0, now + 60)], "with one of two")
    subject.clock.advance(5)
    answer = subject.exchange([Ack(second)], limit=0)
    equal(list(answer.readied), [Readied(join, "other", 3, now + 5)], "with both")
    equal(list(subject.exchange([Ack(second)], limit=0).readied), [], "of a repeated ack")
    subject.expect(chained, S.WAITING, "behind it")


@case("dependencies")
def refused_ack_sets_nothing_free(subject: Subject) -> None:
    """A late ack changes nothing for dependents either, and a repeated one counts once."""
    first, other = subject.add_many(2)
    waiting = subject.add(after=[first, other])
    late = subject.take(first, lease=5.0)
    subject.clock.advance(5)
    current = subject.take(first, lease=LEASE)
    equal(subject.settle(Ack(late, text("late"))), [Settled.LEASE_LOST], "the late ack")
    equal(subject.record(waiting).pending, 2, "pending after a refused ack")
    ack = Ack(current, text("value"))
    equal(subject.settle(ack, ack), [Settled.DONE, Settled.REPEATED], "the ack, twice")
    equal(subject.record(waiting).pending, 1, "pending after a repeated ack")


@case("dependencies")
def results_are_handed_over(subject: Subject) -> None:
    """A delivery brings the results of all dependencies, by job id, with their codecs."""
    a, b = subject.add_many(2)
    waiting = subject.add(after=[Dependency(a, 0), Dependency(b, "named")])
    own = Payload("own-codec", b"\x00\xff raw")
    subject.done(Ack(subject.take(a), text("from a")))
    subject.done(Ack(subject.take(b), own))
    equal(subject.take(waiting).inputs, {a: text("from a"), b: own}, "inputs")


@case("dependencies")
def dependency_without_result_hands_nothing_over(subject: Subject) -> None:
    """An ack without a result leaves its dependency out of the inputs."""
    a, b = subject.add_many(2)
    waiting = subject.add(after=[a, b])
    subject.done(Ack(subject.take(a)))
    _succeed(subject, b)
    equal(subject.take(waiting).inputs, {b: text("value")}, "inputs")


@case("dependencies")
def results_are_handed_over_though_they_are_not_kept(subject: Subject) -> None:
    """Dependents get results that the store does not keep, or keeps for no time."""
    unkept = subject.add(store_result=False, feeds=True)
    gone = subject.add(result_ttl=0.0, feeds=True)
    waiting = subject.add(after=[unkept, gone])
    _succeed(subject, unkept, "one")
    _succeed(subject, gone, "two")
    equal(subject.state(gone), S.UNKNOWN, "state of the job without retention")
    equal(subject.take(waiting).inputs, {unkept: text("one"), gone: text("two")}, "inputs")


@case("dependencies")
def results_outlive_the_jobs_they_came_from(subject: Subject) -> None:
    """What was handed over stays with the dependent when its dependency is deleted."""
    a, b = (subject.add(result_ttl=10.0) for _ in range(2))
    waiting = subject.add(after=[a, b])
    _succeed(subject, a, "one")
    subject.transport.forget([a])
    subject.clock.advance(20)
    _succeed(subject, b, "two")
    subject.clock.advance(20)
    subject.transport.maintain()
    equal(_states(subject, a, b), [S.UNKNOWN] * 2, "states of the dependencies")
    equal(subject.take(waiting).inputs, {a: text("one"), b: text("two")}, "inputs")


@case("dependencies")
def results_are_handed_over_again_to_every_delivery(subject: Subject) -> None:
    """A dependent that is lost, retried or replayed gets its inputs each time."""
    first = subject.add()
    job_id = subject.add(after=[first], max_deliveries=2)
    _succeed(subject, first)
    subject.transport.forget([first])
    inputs = {first: text("value")}
    subject.take(job_id, lease=5.0)
    subject.clock.advance(5)
    delivery = subject.take(job_id)
    equal(delivery.inputs, inputs, "inputs after a reclaim")
    subject.done(RetryLater(delivery, 0.0, FAILURE))
    delivery = subject.take(job_id)
    equal(delivery.inputs, inputs, "inputs after a retry")
    subject.done(Nack(delivery))
    subject.expect(job_id, S.FAILED, "at its ceiling")
    subject.transport.replay([job_id], {})
    equal(subject.take(job_id).inputs, inputs, "inputs after a replay")


@case("dependencies")
def chain_runs_in_order(subject: Subject) -> None:
    """Each job of a chain runs after the one before, with its result."""
    ids: list[str] = []
    batch = []
    for _ in range(5):
        batch.append(subject.job(after=ids[-1:]))
        ids.append(batch[-1].envelope.id)
    subject.transport.enqueue(batch)
    for number, job_id in enumerate(ids):
        (delivery,) = subject.reserve(limit=10)
        equal(delivery.job_id, job_id, f"job {number} of the chain")
        expected = {ids[number - 1]: text(str(number - 1))} if number else None
        equal(delivery.inputs, expected, "inputs")
        subject.done(Ack(delivery, text(str(number))))


@case("dependencies")
def fan_out_and_fan_in(subject: Subject) -> None:
    """In a diamond the middle runs side by side, and the end once, with both results."""
    top = subject.add()
    left, right = subject.add(after=[top]), subject.add(after=[top])
    bottom = subject.add(after=[left, right])
    _succeed(subject, top, "top")
    middle = subject.hold([left, right])
    equal([d.inputs for d in middle], [{top: text("top")}] * 2, "its inputs")
    subject.settle(Ack(middle[1], text("right")))
    subject.idle()
    subject.settle(Ack(middle[0], text("left")))
    last = subject.reserve(limit=10)
    equal([d.job_id for d in last], [bottom], "the end")
    equal(last[0].inputs, {left: text("left"), right: text("right")}, "its inputs")


@case("dependencies")
def wide_fan_in_is_linear(subject: Subject) -> None:
    """A job may wait for thousands; the last success queues it, with every result."""
    count = 3_000
    ids = subject.add_many(count)
    last = subject.add(after=ids)
    while held := subject.reserve(limit=500):
        if held[0].job_id == last:
            break
        subject.settle(*(Ack(delivery, text(delivery.job_id)) for delivery in held))
    inputs = present(held[0].inputs, "inputs")
    equal(len(inputs), count, "results handed over")
    holds(all(inputs[job_id] == text(job_id) for job_id in ids), "each result is its job's own")


@case("dependencies")
def dependencies_may_stand_behind_in_the_batch(subject: Subject) -> None:
    """A batch may name a job before it stores it."""
    first = subject.job()
    second = subject.job(after=[first.envelope.id])
    third = subject.job(after=[second.envelope.id])
    subject.transport.enqueue([third, second, first])
    for sealed in (first, second, third):
        _succeed(subject, sealed.envelope.id)


@case("dependencies")
def dependency_that_has_succeeded_is_met(subject: Subject) -> None:
    """A job whose dependencies have all succeeded is QUEUED at once, with their results."""
    first = subject.add()
    _succeed(subject, first)
    job_id = subject.add(after=[first])
    equal(subject.expect(job_id, S.QUEUED, "at once").pending, 0, "pending")
    equal(subject.take(job_id).inputs, {first: text("value")}, "inputs")


@case("dependencies")
def unknown_dependency_is_refused(subject: Subject) -> None:
    """A job that waits for one which is not stored, or no longer, is refused."""
    gone = subject.add(result_ttl=0.0)
    _succeed(subject, gone)
    for unknown in ("01UNKNOWN", gone):
        with raises(UnknownDependency, "an unknown dependency"):
            subject.add(after=[unknown])
    subject.idle()


@case("dependencies")
def eta_counts_after_the_dependencies(subject: Subject) -> None:
    """A job with dependencies and an ``eta`` waits for both."""
    start = subject.clock.now()
    first = subject.add()
    later = subject.add(after=[first], eta=start + 50)
    past = subject.add(after=[first], eta=start + 5)
    subject.clock.advance(10)
    _succeed(subject, first)
    near(subject.record(later).visible_at, start + 50, "visible_at of an eta to come")
    near(subject.record(past).visible_at, start + 10, "visible_at of an eta gone by")
    subject.take(past)
    subject.idle()
    subject.clock.advance(40)
    subject.take(later)


@case("dependencies")
def retried_dependency_keeps_its_dependents_waiting(subject: Subject) -> None:
    """Retries, reclaims and releases of a dependency decide nothing."""
    first = subject.add()
    waiting = subject.add(after=[first])
    subject.done(RetryLater(subject.take(first), 0.0, FAILURE))
    subject.take(first, lease=5.0)
    subject.clock.advance(5)
    delivery = subject.take(first)
    subject.expect(waiting, S.WAITING, "in the middle")
    subject.done(Ack(delivery))
    subject.expect(waiting, S.QUEUED, "in the end")


@case("dependencies")
def same_job_named_twice_is_one_dependency(subject: Subject) -> None:
    """A job may take one result at two places: that is one dependency to wait for."""
    first = subject.add()
    waiting = subject.add(after=[Dependency(first, 0), Dependency(first, "again")])
    equal(subject.record(waiting).pending, 1, "pending")
    _succeed(subject, first)
    equal(subject.take(waiting).inputs, {first: text("value")}, "inputs")


@case("dependencies")
def replacement_envelope_keeps_dependents_and_inputs(subject: Subject) -> None:
    """A retry with another envelope changes nothing about who waits for whom."""
    first = subject.add()
    second = subject.add(after=[first])
    third = subject.add(after=[second])
    _succeed(subject, first)
    other = subject.job(id=second, queue="other")
    subject.done(RetryLater(subject.take(second), 0.0, FAILURE, other))
    delivery = subject.take(second, queues=["other"])
    equal(delivery.inputs, {first: text("value")}, "inputs")
    subject.done(Ack(delivery, text("second")))
    equal(subject.take(third).inputs, {second: text("second")}, "inputs of the next")
