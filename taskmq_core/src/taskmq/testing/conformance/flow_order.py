"""Order behind limits: of those that may run now, the first goes first."""

from __future__ import annotations

from taskmq.limits import Fair, Limit
from taskmq.transport import Ack, Release, RetryLater

from .case import case
from .checks import equal
from .subject import FAILURE, Subject

ONE = Limit("concurrency", "one", 1)
SLOW = Limit("rate", "slow", 1, 8.0)
BURST_OF_THREE = Limit("rate", "bursts", 1, 2.0, 3)


def _reserve(subject: Subject, limit: int) -> list[str]:
    return [delivery.job_id for delivery in subject.reserve(limit)]


@case("limits", "fifo")
def job_refused_by_its_second_limit_lets_its_follower_pass(subject: Subject) -> None:
    """Who stood behind it at its first limit comes before the less urgent, in the same exchange."""
    subject.done(Ack(subject.take(subject.add(limits=(SLOW,)))))
    subject.add(limits=(ONE, SLOW))
    follower = subject.add(limits=(ONE,))
    plain = subject.add()
    equal(_reserve(subject, 1), [follower], "the first delivery")
    equal(_reserve(subject, 9), [plain], "the rest")


@case("limits", "global_priority")
def job_refused_by_its_second_limit_lets_no_less_urgent_one_pass(subject: Subject) -> None:
    """Nor where its follower is not ready yet, but held."""
    running = subject.take(subject.add(limits=(ONE,)))
    subject.done(Ack(subject.take(subject.add(limits=(SLOW,)))))
    subject.add(limits=(ONE, SLOW))
    follower = subject.add(limits=(ONE,))
    plain = subject.add(priority=-3)
    subject.done(Ack(running))
    equal(_reserve(subject, 2), [follower, plain], "deliveries")


@case("limits", "fifo")
def job_that_comes_back_to_a_rate_is_before_later_ones(subject: Subject) -> None:
    """Also if a later one has begun to wait for it meanwhile."""
    first, second = subject.add_many(2, limits=(SLOW,))
    subject.done(RetryLater(subject.take(first), 1.0, FAILURE))
    subject.clock.advance(1)
    subject.idle()
    for job_id in (first, second):
        subject.clock.advance(8)
        equal(_reserve(subject, 9), [job_id], "deliveries of an interval")


@case("limits", "fifo")
def job_that_comes_back_to_its_key_is_before_later_ones(subject: Subject) -> None:
    """Also if a later one was to be next."""
    first = subject.add(limits=(ONE,))
    second = subject.add(limits=(ONE,))
    subject.done(RetryLater(subject.take(first), 1.0, FAILURE))
    held = subject.take(subject.add(queue="r", limits=(ONE,)), queues=["r"])
    subject.clock.advance(1)
    subject.idle()
    (delivery,) = subject.exchange([Ack(held)], limit=9).deliveries
    equal(delivery.job_id, first, "the next of its key")
    (delivery,) = subject.exchange([Ack(delivery)], limit=9).deliveries
    equal(delivery.job_id, second, "the one after it")


@case("limits")
def start_that_was_given_back_is_anothers_at_once(subject: Subject) -> None:
    """Who waits for a rate waits as long as it keeps him now, in whatever queue."""
    first = subject.add(queue="a", limits=(SLOW,))
    second = subject.add(queue="b", limits=(SLOW,))
    delivery = subject.take(first, queues=["a"])
    subject.idle(queues=["b"])
    subject.done(Release(delivery))
    subject.transport.revoke([first])
    subject.take(second, queues=["b"])


@case("limits", "global_priority", "fifo")
def burst_goes_before_the_less_urgent(subject: Subject) -> None:
    """All that a rate lets pass at once come before what is less urgent."""
    urgent = subject.add_many(5, limits=(BURST_OF_THREE,), priority=2)
    plain = subject.add_many(2)
    equal(_reserve(subject, 4), [*urgent[:3], plain[0]], "deliveries at first")
    subject.clock.advance(20)
    equal(_reserve(subject, 2), urgent[3:], "deliveries after a pause")


@case("limits", "fair_turns")
def turn_comes_before_those_that_wait_for_a_rate(subject: Subject) -> None:
    """A new job of another key does not wait until those have started that came before it."""
    many = subject.add_many(4, limits=(SLOW,), fair=Fair("many"))
    subject.take(many[0])
    subject.idle()
    few = subject.add(limits=(SLOW,), fair=Fair("few"))
    subject.clock.advance(8)
    subject.take(few)
