"""Urgency: strict over all queues, and weighted turns among equals."""

from __future__ import annotations

from collections import Counter

from taskmq.transport import Ack

from .case import case
from .checks import equal, holds
from .subject import Subject


@case()
def higher_priority_comes_first(subject: Subject) -> None:
    """Within a queue, jobs come by priority from 9 down to -9."""
    ids = {priority: subject.add(priority=priority) for priority in (0, -9, 9, 3, -1)}
    got = [subject.take().job_id for _ in ids]
    equal(got, [ids[priority] for priority in (9, 3, 0, -1, -9)], "the order")


@case("fifo")
def order_inside_a_batch_is_by_priority_then_age(subject: Subject) -> None:
    """One reservation lists its deliveries by priority, equals first in first out."""
    a, b, c, d = (subject.add(priority=priority) for priority in (0, 5, 0, 5))
    equal([x.job_id for x in subject.reserve(limit=4)], [b, d, a, c], "the order")


@case("global_priority")
def priority_is_strict_over_all_queues(subject: Subject) -> None:
    """The most urgent job comes first, whichever queue holds it and whatever the weights."""
    expected: list[str] = []
    for priority in (3, 2, 1):
        for queue in ("a", "b", "c"):
            job_id = subject.add(queue=queue, priority=priority)
            if queue == "b":
                expected.append(job_id)
    weights = {"a": 100, "b": 1, "c": 100}
    got = [subject.take(queues=weights) for _ in range(9)]
    equal([d.priority for d in got], [3, 3, 3, 2, 2, 2, 1, 1, 1], "priorities")
    equal([d.job_id for d in got if d.queue == "b"], expected, "the order inside one queue")


@case("global_priority")
def urgent_jobs_fill_a_batch_first(subject: Subject) -> None:
    """A batch takes less urgent jobs only when no more urgent one is left in any queue."""
    subject.add_many(10, queue="low", priority=0)
    subject.add_many(2, queue="high", priority=1)
    got = subject.reserve(limit=6, queues={"low": 50, "high": 1})
    equal([d.queue for d in got], ["high"] * 2 + ["low"] * 4, "the queues, in order")


@case("global_priority")
def job_that_becomes_due_is_as_urgent_as_it_says(subject: Subject) -> None:
    """Priority counts from the instant at which a job is visible."""
    urgent = subject.add(priority=9, eta=subject.clock.now() + 10, queue="other")
    first, second = subject.add_many(2)
    both = ["q", "other"]
    subject.take(first, queues=both)
    subject.clock.advance(10)
    subject.take(urgent, queues=both)
    subject.take(second, queues=both)


def _shares(subject: Subject, weights: dict[str, int], batches: int, size: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    for _ in range(batches):
        deliveries = subject.reserve(limit=size, queues=weights)
        counts.update(delivery.queue for delivery in deliveries)
        subject.settle(*(Ack(delivery) for delivery in deliveries))
    return counts


def _fair(counts: Counter[str], weights: dict[str, int], when: str) -> None:
    total, turns = sum(counts.values()), sum(weights.values())
    for queue, weight in weights.items():
        due = total * weight / turns
        what = f"{queue} has {due:g} of {total} turns within 1 {when}, got {counts[queue]}"
        holds(abs(counts[queue] - due) <= 1, what)


@case("weighted_turns")
def turns_in_a_batch_follow_the_weights(subject: Subject) -> None:
    """Of queues whose heads are equally urgent, a batch takes jobs in proportion to weight."""
    weights = {"a": 3, "b": 1, "c": 2}
    for queue in weights:
        subject.add_many(60, queue=queue)
    for size in (6, 12, 30):
        _fair(_shares(subject, weights, 1, size), weights, f"in a batch of {size}")


@case("weighted_turns")
def turns_across_batches_follow_the_weights(subject: Subject) -> None:
    """The proportion holds over many reservations, of one job or of odd sizes."""
    weights = {"a": 5, "b": 2}
    for queue in weights:
        subject.add_many(120, queue=queue)
    _fair(_shares(subject, weights, 35, 1), weights, "over 35 reservations of one")
    _fair(_shares(subject, weights, 10, 5), weights, "over 10 reservations of five")


@case("weighted_turns")
def equal_weights_take_turns(subject: Subject) -> None:
    """Queues of equal weight alternate; a long queue does not starve a short one."""
    subject.add_many(100, queue="long")
    subject.add_many(10, queue="short")
    counts = _shares(subject, {"long": 1, "short": 1}, 10, 2)
    equal(dict(counts), {"long": 10, "short": 10}, "jobs after 20 turns")


@case("weighted_turns")
def absent_queue_does_not_save_up_turns(subject: Subject) -> None:
    """A queue that was empty for long does not get all turns when it fills."""
    for others in (("a",), ("c", "d")):
        weights = dict.fromkeys((*others, "late"), 1)
        for queue in others:
            subject.add_many(100, queue=queue)
        subject.add_many(1, queue="late")
        _shares(subject, weights, 40, 1)
        subject.add_many(30, queue="late")
        counts = _shares(subject, weights, 10, 3)
        fair = 30 / len(weights)
        holds(abs(counts["late"] - fair) <= 2, f"about {fair:g} turns of 30, got {dict(counts)}")
        subject.transport.purge("late")


@case("weighted_turns")
def unused_turns_go_to_the_others(subject: Subject) -> None:
    """A queue with too few jobs leaves its share of a batch to the others."""
    subject.add_many(2, queue="heavy")
    subject.add_many(20, queue="light")
    counts = _shares(subject, {"heavy": 9, "light": 1}, 1, 10)
    equal(dict(counts), {"heavy": 2, "light": 8}, "jobs of the batch")
