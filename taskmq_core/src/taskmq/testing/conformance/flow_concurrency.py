"""Concurrency limits: no more jobs with one key at once than they say, and nobody is forgotten."""

from __future__ import annotations

from collections.abc import Callable

from taskmq.limits import Limit
from taskmq.records import Held
from taskmq.states import JobState
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    Delivery,
    Expire,
    Nack,
    Release,
    RetryLater,
    Revoke,
    Settlement,
)

from .case import case
from .checks import equal, holds, present
from .subject import FAILURE, Subject

ONE = (Limit("concurrency", "user:7", 1),)
TWO = (Limit("concurrency", "user:7", 2),)
NEEDS = "limits"


def _ids(deliveries: list[Delivery]) -> list[str]:
    return [delivery.job_id for delivery in deliveries]


@case(NEEDS)
def no_more_run_at_once_than_the_limit(subject: Subject) -> None:
    """Of jobs with one key only ``amount`` are handed out, whoever asks."""
    subject.add_many(5, limits=TWO)
    equal(len(subject.reserve(limit=1, worker="a")), 1, "deliveries of one")
    equal(len(subject.reserve(limit=9, worker="b")), 1, "deliveries up to the limit")
    subject.transport = subject.open()
    subject.idle(worker="c")


@case(NEEDS)
def held_job_spends_nothing_and_says_why(subject: Subject) -> None:
    """A held job is QUEUED, has no delivery, and its record names the limit and who runs."""
    ids = subject.add_many(4, limits=TWO)
    subject.reserve(limit=9)
    record = subject.expect(ids[3], JobState.QUEUED, "while held")
    equal((record.deliveries, record.reclaims), (0, 0), "deliveries and reclaims")
    equal(record.held, Held(limit=TWO[0], running=2), "what holds it")
    (stats,) = subject.transport.stats(["q"])
    equal((stats.held, stats.ready, stats.running), (2, 0, 2), "held, ready, running")
    equal(subject.record(ids[0]).held, None, "what holds one that runs")


@case(NEEDS)
def held_jobs_do_not_hold_up_others(subject: Subject) -> None:
    """What stands behind any number of held jobs is handed out by the same exchange."""
    subject.add_many(500, limits=ONE, priority=3)
    other_key = subject.add(limits=(Limit("concurrency", "user:8", 1),))
    plain = subject.add()
    got = _ids(subject.reserve(limit=3))
    equal(sorted(got[1:]), sorted([other_key, plain]), "deliveries behind the held jobs")


@case(NEEDS, "fifo")
def success_lets_the_oldest_follow(subject: Subject) -> None:
    """An exchange that settles a holder hands out the oldest held job of its key."""
    ids = subject.add_many(4, limits=ONE)
    held = subject.take(ids[0])
    for following in ids[1:]:
        (held,) = subject.exchange([Ack(held)], limit=9).deliveries
        equal(held.job_id, following, "the next of its key")
    subject.done(Ack(held))
    subject.idle()


ENDS: list[Callable[[Delivery], Settlement]] = [
    Ack,
    Expire,
    Revoke,
    lambda delivery: DeadLetter(delivery, "error", FAILURE),
    lambda delivery: RetryLater(delivery, 50.0, FAILURE),
    lambda delivery: Nack(delivery, 50.0),
    lambda delivery: Defer(delivery, 50.0),
    lambda delivery: Defer(delivery, 50.0, "unknown_task", 99.0),
]


@case(NEEDS)
def every_settlement_frees_the_share(subject: Subject) -> None:
    """However a holder's delivery ends, the next of its key may run."""
    subject.add_many(len(ENDS) + 1, limits=ONE)
    for end in ENDS:
        delivery = subject.take()
        subject.idle()
        subject.done(end(delivery))
    subject.take()


@case(NEEDS, "fifo")
def released_job_keeps_its_turn(subject: Subject) -> None:
    """A job given back unstarted is still the first of its key."""
    ids = subject.add_many(3, limits=ONE)
    subject.done(Release(subject.take(ids[0])))
    equal(_ids(subject.reserve(limit=9)), ids[:1], "deliveries")


@case(NEEDS)
def crashed_holder_frees_its_share_when_its_lease_ends(subject: Subject) -> None:
    """A worker that fell silent holds its share as long as its lease, and no longer."""
    subject.add_many(3, limits=ONE)
    subject.take(lease=10.0)
    subject.clock.advance(9.9)
    subject.idle()
    subject.clock.advance(0.1)
    equal(len(subject.reserve(limit=9)), 1, "deliveries after the lease")


@case(NEEDS)
def share_is_freed_across_queues(subject: Subject) -> None:
    """The limit counts jobs of all queues, and the end of one frees all that wait for it."""
    first = subject.add(queue="q", limits=ONE)
    second = subject.add(queue="r", limits=ONE)
    held = subject.take(first)
    subject.idle(queues=["r"])
    subject.done(Ack(held))
    subject.take(second, queues=["r"])
    subject.idle(queues=["q"])


@case(NEEDS)
def queue_that_nobody_serves_blocks_no_other(subject: Subject) -> None:
    """Held jobs do not wait for one of their key that stands in a queue nobody asks for."""
    held = subject.take(subject.add(queue="q", limits=ONE))
    subject.add(queue="unserved", limits=ONE)
    wanted = subject.add(queue="q", limits=ONE)
    subject.idle(queues=["q", "unserved"])
    subject.done(Ack(held))
    subject.take(wanted, queues=["q"])


@case(NEEDS, "global_priority")
def urgent_job_comes_before_older_ones_of_its_key(subject: Subject) -> None:
    """Among held jobs of a key, priority goes before age."""
    held = subject.take(subject.add(limits=ONE))
    subject.add_many(3, limits=ONE)
    urgent = subject.add(limits=ONE, priority=5)
    subject.idle()
    subject.done(Ack(held))
    subject.take(urgent)


@case(NEEDS)
def revoking_whoever_is_next_lets_another_follow(subject: Subject) -> None:
    """A job that was next and is revoked does not leave the others behind."""
    ids = subject.add_many(4, limits=ONE)
    held = subject.take(ids[0])
    subject.idle()
    subject.done(Ack(held))
    equal(subject.transport.revoke(ids[1:3]), [True, True], "revoked")
    subject.take(ids[3])


@case(NEEDS)
def expiry_of_whoever_is_next_lets_another_follow(subject: Subject) -> None:
    """Held jobs expire like any other, and one that was next does not block the others."""
    now = subject.clock.now()
    first = subject.take(subject.add(limits=ONE))
    fleeting = [subject.add(limits=ONE, expires_at=now + 5) for _ in range(2)]
    lasting = subject.add(limits=ONE)
    subject.idle()
    subject.done(Ack(first))
    subject.clock.advance(5)
    subject.take(lasting)
    for job_id in fleeting:
        subject.expect(job_id, JobState.EXPIRED, "after its time")


@case(NEEDS)
def held_jobs_can_be_revoked_and_purged(subject: Subject) -> None:
    """Held jobs are there for everything that concerns waiting jobs."""
    ids = subject.add_many(4, limits=ONE)
    subject.take(ids[0])
    subject.idle()
    equal(subject.transport.revoke(ids[1:2]), [True], "revoked")
    subject.expect(ids[1], JobState.REVOKED, "after a revoke")
    equal(subject.transport.purge("q"), 2, "purged")
    equal(subject.state(ids[3]), JobState.UNKNOWN, "a purged job")
    (stats,) = subject.transport.stats(["q"])
    equal((stats.held, stats.running), (0, 1), "held and running")


@case(NEEDS)
def delayed_jobs_are_limited_when_they_are_due(subject: Subject) -> None:
    """A limit holds for jobs that become visible later: by eta, retry or dependencies."""
    now = subject.clock.now()
    subject.add_many(3, limits=ONE, eta=now + 5)
    parent = subject.add()
    subject.add(limits=ONE, after=[parent])
    subject.done(Ack(subject.take(parent)))
    held = subject.take()
    subject.done(RetryLater(held, 5.0, FAILURE))
    subject.clock.advance(5)
    for left in range(4, 0, -1):
        got = subject.reserve(limit=9)
        equal(len(got), 1, f"deliveries, {left} to go")
        subject.done(Ack(got[0]))
    subject.idle()


@case(NEEDS)
def replayed_job_is_limited_again(subject: Subject) -> None:
    """A dead letter does not count, and is limited like a new job when it is replayed."""
    first, second = subject.add_many(2, limits=ONE)
    subject.done(DeadLetter(subject.take(first), "error", FAILURE))
    running = subject.take(second)
    equal(subject.transport.replay([first], {}), [True], "replayed")
    subject.idle()
    subject.done(Ack(running))
    subject.take(first)


@case(NEEDS, "durable")
def limits_survive_a_restart(subject: Subject) -> None:
    """Who runs and who is held is as durable as the jobs."""
    ids = subject.add_many(3, limits=ONE)
    subject.take(ids[0], lease=30.0)
    subject.idle()
    subject.reopen()
    subject.idle()
    equal(present(subject.record(ids[1]).held, "what holds it").running, 1, "running")
    subject.clock.advance(30)
    holds(len(subject.reserve(limit=9)) == 1, "one runs after the lease")
