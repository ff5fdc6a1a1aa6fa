"""Quotas: a reservation takes no more of a queue than it asks for."""

from __future__ import annotations

from collections import Counter

from taskmq.transport import Exchange, Reservation

from .case import case
from .checks import equal
from .subject import LEASE, Subject


def _ask(subject: Subject, limit: int, queues: list[str], **quotas: int) -> Exchange:
    wanted = Reservation(
        queues=dict.fromkeys(queues, 1), worker="w", lease=LEASE, limit=limit, quotas=quotas
    )
    return subject.transport.exchange((), wanted)


def _queues(answer: Exchange) -> Counter[str]:
    return Counter(delivery.queue for delivery in answer.deliveries)


@case()
def no_more_of_a_queue_than_its_quota(subject: Subject) -> None:
    """What a quota leaves is filled from the other queues, however urgent the jobs are."""
    subject.add_many(10, priority=5)
    subject.add_many(10, queue="r")
    answer = _ask(subject, 6, ["q", "r"], q=2)
    equal(_queues(answer), Counter(q=2, r=4), "deliveries by queue")


@case()
def quota_holds_in_a_single_queue(subject: Subject) -> None:
    """Also where no other queue is asked for, over all priorities."""
    subject.add_many(3, priority=1)
    subject.add_many(3)
    equal(len(_ask(subject, 6, ["q"], q=4).deliveries), 4, "deliveries")
    equal(len(_ask(subject, 6, ["q"], q=0).deliveries), 0, "deliveries with a quota of 0")
    equal(len(_ask(subject, 6, ["q"], other=1).deliveries), 2, "deliveries without a quota")


@case("global_priority")
def used_up_quota_leaves_nothing_waiting(subject: Subject) -> None:
    """``waiting_priority`` does not count jobs that this worker may not have."""
    subject.add_many(3, priority=5)
    subject.add_many(2, queue="r", priority=1)
    equal(_ask(subject, 0, ["q", "r"], q=0).waiting_priority, 1, "with a quota of 0")
    answer = _ask(subject, 2, ["q", "r"], q=1)
    equal((_queues(answer), answer.waiting_priority), (Counter(q=1, r=1), 1), "after one each")
    equal(_ask(subject, 0, ["q"], q=1).waiting_priority, 5, "with a quota of 1")


@case("weighted_turns", "fifo")
def turns_go_on_within_the_quotas(subject: Subject) -> None:
    """Queues of equal urgency take turns until one has all that it may."""
    for queue in "qrs":
        subject.add_many(10, queue=queue)
    answer = _ask(subject, 9, ["q", "r", "s"], q=1)
    equal(_queues(answer), Counter(q=1, r=4, s=4), "deliveries by queue")
