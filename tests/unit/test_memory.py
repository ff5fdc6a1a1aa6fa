"""What the conformance suite does not say of the memory transport."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from taskmq.errors import ConfigError
from taskmq.limits import Limit
from taskmq.records import JobFilter
from taskmq.states import Event
from taskmq.testing import FakeClock
from taskmq.testing.conformance import Subject
from taskmq.testing.conformance.subject import LEASE
from taskmq.transport import Ack, Release, Transport
from taskmq.transports.memory import MemoryTransport, from_url, reserve
from taskmq.transports.memory.ordered import Ordered


def _subject() -> Subject:
    return Subject(lambda name, clock: MemoryTransport(clock), "memory")


def test_is_a_transport() -> None:
    assert isinstance(from_url("memory://", clock=FakeClock()), Transport)


@pytest.mark.parametrize("url", ["memory://", "memory:///"])
def test_every_url_opens_a_store_of_its_own(url: str) -> None:
    subject = _subject()
    first, second = from_url(url, clock=FakeClock()), from_url(url, clock=FakeClock())
    first.enqueue([subject.job()])
    assert second.find(JobFilter()) == []


@pytest.mark.parametrize("url", ["memory://name", "memory://?size=3"])
def test_url_has_no_options(url: str) -> None:
    with pytest.raises(ConfigError, match="write memory://"):
        from_url(url, clock=FakeClock())


def test_transition_that_the_table_does_not_know_is_a_bug() -> None:
    subject = _subject()
    job_id = subject.add()
    store = subject.transport._store  # type: ignore[attr-defined]  # the store itself is looked at
    with pytest.raises(AssertionError, match="no transition from QUEUED by ack"):
        store.move(store.jobs[job_id], Event.ACK, 0.0)


def test_signal_handler_may_wake_the_thread_it_interrupts() -> None:
    """Whatever part of a wait the signal hits, the wait ends and nothing deadlocks."""
    listener = MemoryTransport(FakeClock()).listen()
    previous = signal.signal(signal.SIGUSR1, lambda *_: listener.wake())
    try:
        for _ in range(200):
            listener.clear()
            sender = threading.Thread(target=os.kill, args=(os.getpid(), signal.SIGUSR1))
            sender.start()
            assert listener.wait(5.0)
            sender.join()
    finally:
        signal.signal(signal.SIGUSR1, previous)


def test_closed_listener_is_forgotten() -> None:
    subject = _subject()
    listener = subject.transport.listen(["q"], jobs=["a"])
    listener.clear()
    listener.close()
    listener.close()
    subject.add()
    assert not listener.wait(0.0)


@pytest.mark.no_cover  # its time is what is tested
def test_hundred_thousand_jobs_are_no_burden() -> None:
    """Loose bound on processor time: quadratic code would take minutes."""
    subject = _subject()
    started = time.process_time()
    later = subject.clock.now() + 1_000
    subject.transport.enqueue([subject.job(priority=n % 3) for n in range(50_000)])
    subject.transport.enqueue([subject.job(eta=later + n % 7) for n in range(50_000)])
    for _ in range(2):
        while held := subject.reserve(limit=500):
            subject.transport.extend(held, 60.0)
            subject.settle(*(Ack(delivery) for delivery in held))
        subject.clock.advance(1_010)
    assert subject.transport.stats() == []
    assert time.process_time() - started < 30


def test_many_jobs_that_fall_due_at_once_are_made_ready_bit_by_bit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each exchange sees to some, and says that there is more to do at once."""
    monkeypatch.setattr(reserve, "PROMOTED_AT_ONCE", 10)
    subject = _subject()
    limits = (Limit("concurrency", "k", 1),)
    ids = subject.add_many(35, eta=subject.clock.now() + 5, limits=limits)
    subject.clock.advance(9)
    now = subject.clock.now()
    answers = [subject.exchange(limit=5) for _ in range(4)]
    assert [len(answer.deliveries) for answer in answers] == [1, 0, 0, 0]
    assert [answer.next_due_at for answer in answers[:3]] == [now] * 3
    assert answers[3].next_due_at == now + LEASE
    assert subject.transport.stats(["q"])[0].held == 34
    subject.done(Ack(answers[0].deliveries[0]))
    assert subject.take().job_id == ids[1]


def test_reservations_given_back_leave_nothing_behind() -> None:
    """Stale index entries are swept: the heaps stay as small as what they index."""
    subject = _subject()
    subject.add_many(10)
    for _ in range(1_000):
        held = subject.reserve(limit=10)
        subject.transport.extend(held, 60.0)
        subject.settle(*(Release(delivery) for delivery in held))
    lanes = subject.transport._store.lanes["q"]  # type: ignore[attr-defined]  # looked at from inside
    assert len(lanes.leased._heap) < 200
    assert len(lanes.ready[0]._heap) < 200


def test_ordered_skips_what_was_moved_or_discarded() -> None:
    ordered = Ordered[float]()
    for place, name in enumerate("abcd"):
        ordered.put(name, float(place))
    ordered.put("a", 9.0)
    ordered.discard("b")
    ordered.discard("unknown")
    assert (len(ordered), sorted(ordered), ordered.first()) == (3, ["a", "c", "d"], 2.0)
    assert ordered.due(3.0, limit=1) == ["c"]
    assert ordered.due(3.0) == ["d"]
    assert ordered.pop() == "a"
    assert ordered.first() is None
    with pytest.raises(IndexError):
        ordered.pop()
