"""What a worker may hold of each queue, counted as deliveries come and go."""

from __future__ import annotations

from taskmq import QueueConfig
from taskmq.testing.conformance import Subject
from taskmq.transports.memory import MemoryTransport
from taskmq.worker.quotas import Quotas

DECLARED = {
    "q": QueueConfig(max_running=2),
    "r": QueueConfig(),
    "elsewhere": QueueConfig(max_running=1),
}


def test_only_queues_that_are_served_and_limited_have_a_quota() -> None:
    assert Quotas(["q", "r", "undeclared"], DECLARED).left() == {"q": 2}
    assert Quotas(["r"], DECLARED).left() == {}


def test_what_is_held_is_taken_off_until_it_is_let_go() -> None:
    subject = Subject(lambda name, clock: MemoryTransport(clock), "quotas")
    subject.add_many(2)
    subject.add(queue="r")
    deliveries = subject.reserve(limit=3, queues=["q", "r"])
    quotas = Quotas(["q", "r"], DECLARED)
    quotas.hold(deliveries)
    assert quotas.left() == {"q": 0}
    quotas.let_go(deliveries[:1])
    assert quotas.left() == {"q": 1}
