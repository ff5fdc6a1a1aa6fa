"""Fair turns: jobs of one queue that belong to different keys take turns."""

from __future__ import annotations

from collections import Counter

from taskmq.limits import Fair, Limit
from taskmq.transport import Ack, Release, RetryLater

from .case import case
from .checks import equal, holds
from .subject import FAILURE, Subject

NEEDS = "fair_turns"
A, B = Fair("a"), Fair("b")


def _fill(subject: Subject, count: int, fair: Fair | None, **fields: object) -> list[str]:
    return subject.add_many(count, fair=fair, **fields)


def _owners(subject: Subject, groups: dict[str, list[str]], limit: int, **how: object) -> list[str]:
    """Whose jobs are handed out next, in order."""
    owner = {job_id: name for name, ids in groups.items() for job_id in ids}
    deliveries = subject.reserve(limit=limit, **how)
    subject.transport.settle([Ack(delivery) for delivery in deliveries])
    return [owner[delivery.job_id] for delivery in deliveries]


@case(NEEDS, "fifo")
def few_jobs_do_not_wait_for_many(subject: Subject) -> None:
    """Ten jobs of one key behind thousands of another are among the first twenty-one."""
    many = _fill(subject, 2_000, A)
    few = _fill(subject, 10, B)
    got = _owners(subject, {"a": many, "b": few}, 21)
    equal(got.count("b"), 10, "jobs of the key that has few")


@case(NEEDS, "fifo")
def few_that_come_late_do_not_wait_either(subject: Subject) -> None:
    """The same when many have been handed out before."""
    many = _fill(subject, 300, A)
    groups = {"a": many}
    equal(_owners(subject, groups, 100).count("a"), 100, "jobs of the only key")
    groups["b"] = _fill(subject, 10, B)
    equal(_owners(subject, groups, 21).count("b"), 10, "jobs of the key that came late")


@case(NEEDS, "fifo")
def keys_take_turns_in_order(subject: Subject) -> None:
    """Three keys of equal weight alternate, each first in, first out."""
    groups = {name: _fill(subject, 4, Fair(name)) for name in "abc"}
    got = [subject.take().job_id for _ in range(12)]
    for ids in groups.values():
        equal([job_id for job_id in got if job_id in ids], ids, "the order of one key")
    owner = {job_id: name for name, ids in groups.items() for job_id in ids}
    for start in (0, 3, 6, 9):
        turns = {owner[job_id] for job_id in got[start : start + 3]}
        equal(turns, {"a", "b", "c"}, f"whose turns are {start} to {start + 2}")


@case(NEEDS, "fifo")
def weights_are_shares(subject: Subject) -> None:
    """A key with weight 3 has three turns for each of one with weight 1."""
    groups = {"a": _fill(subject, 100, Fair("a", 3.0)), "b": _fill(subject, 100, B)}
    count = Counter(_owners(subject, groups, 80))
    holds(58 <= count["a"] <= 62, f"about 60 of 80 are those of weight 3 (they were {count['a']})")


@case(NEEDS, "fifo")
def jobs_without_a_key_are_a_key_of_their_own(subject: Subject) -> None:
    """In a queue with keys, those without one take turns with the others."""
    groups = {"a": _fill(subject, 50, A), "none": _fill(subject, 50, None)}
    count = Counter(_owners(subject, groups, 20))
    equal(count, Counter({"a": 10, "none": 10}), "turns")


@case(NEEDS, "fifo")
def queue_without_keys_is_first_in_first_out(subject: Subject) -> None:
    """Keys in one queue, or of one priority, leave all others as they are."""
    _fill(subject, 3, A)
    _fill(subject, 3, A, priority=1, queue="plain")
    ids = subject.add_many(5, queue="plain")
    got = subject.reserve(limit=9, queues=["plain"])[3:]
    equal([delivery.job_id for delivery in got], ids, "the order in a plain queue")


@case(NEEDS, "fifo")
def submitting_one_by_one_gains_nothing(subject: Subject) -> None:
    """A key that always has one job waiting gets its share, not more."""
    groups = {"b": _fill(subject, 50, B), "a": _fill(subject, 1, A)}
    got: list[str] = []
    for _ in range(40):
        got += _owners(subject, groups, 1)
        if got[-1] == "a":
            groups["a"] += _fill(subject, 1, A, result_ttl=0.0)
    holds(18 <= got.count("a") <= 22, f"about half of the turns (they were {got.count('a')})")


@case(NEEDS, "fifo")
def pause_saves_no_turns_up(subject: Subject) -> None:
    """A key that had nothing for a while joins at the present."""
    groups = {"a": _fill(subject, 1, A), "b": _fill(subject, 100, B)}
    _owners(subject, groups, 60)
    groups["a"] += _fill(subject, 40, A)
    holds(_owners(subject, groups, 20).count("a") <= 11, "about half of the turns, not all")


@case(NEEDS, "fifo")
def jobs_that_never_ran_are_not_paid_for(subject: Subject) -> None:
    """A key whose jobs were revoked or purged begins at the present."""
    revoked = _fill(subject, 100, A)
    groups = {"b": _fill(subject, 100, B)}
    subject.transport.revoke(revoked)
    equal(_owners(subject, groups, 5), ["b"] * 5, "the only key that is left")
    groups["a"] = _fill(subject, 10, A)
    holds(_owners(subject, groups, 21).count("a") == 10, "ten of twenty-one turns")


@case(NEEDS, "fifo")
def job_that_comes_back_keeps_its_turn(subject: Subject) -> None:
    """A released or retried job comes before later ones of its key."""
    ids = _fill(subject, 3, A)
    first = subject.take(ids[0])
    subject.done(Release(first))
    subject.done(RetryLater(subject.take(ids[0]), 0.0, FAILURE))
    subject.take(ids[0])


@case(NEEDS, "fifo", "limits")
def turns_and_limits_go_together(subject: Subject) -> None:
    """Held jobs come in the order of their turns."""
    one = (Limit("concurrency", "one", 1),)
    groups = {"a": _fill(subject, 30, A, limits=one), "b": _fill(subject, 5, B, limits=one)}
    got = [_owners(subject, groups, 9)[0] for _ in range(11)]
    equal(got.count("b"), 5, "turns of the key that has few")


@case(NEEDS, "fifo", "durable")
def turns_survive_a_restart(subject: Subject) -> None:
    """What was handed out before counts after it."""
    groups = {"a": _fill(subject, 50, A)}
    _owners(subject, groups, 20)
    subject.reopen()
    groups["b"] = _fill(subject, 5, B)
    equal(_owners(subject, groups, 11).count("b"), 5, "turns of the key that came late")
