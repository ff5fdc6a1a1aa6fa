"""Small parts of the worker: inbox, backoff, tally, ticker."""

import threading
import time
from collections.abc import Callable

import pytest
from tests.waiting import PATIENCE, wait_for

from taskmq.clock import SystemClock
from taskmq.codec import Payload
from taskmq.executor import Outcome
from taskmq.records import Failure
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    Delivery,
    Listener,
    Release,
    RetryLater,
    Revoke,
)
from taskmq.transports.memory import MemoryTransport
from taskmq.worker.backoff import Backoff
from taskmq.worker.inbox import Inbox
from taskmq.worker.report import Tally
from taskmq.worker.ticker import Ticker

DELIVERY = Delivery(
    job_id="a",
    queue="default",
    priority=0,
    envelope=b"{}",
    token=1,
    attempt=1,
    deliveries=1,
    reclaims=0,
    yields=0,
    lease_until=0.0,
)
OUTCOME = Outcome(Ack(DELIVERY, Payload("json", b"null")))


def waiting(inbox: Inbox, enough: int) -> tuple[threading.Thread, list[bool]]:
    """A thread that waits, once it does."""
    answers: list[bool] = []
    thread = threading.Thread(target=lambda: answers.append(inbox.wait(PATIENCE, enough)))
    thread.start()
    end = time.monotonic() + PATIENCE
    while inbox._enough != enough and time.monotonic() < end:
        time.sleep(0)
    return thread, answers


def test_inbox_wakes_for_one_outcome() -> None:
    inbox = Inbox()
    thread, answers = waiting(inbox, enough=1)
    inbox.put(OUTCOME)
    thread.join(PATIENCE)
    assert answers == [True]
    assert inbox.take() == [OUTCOME]


def test_inbox_wakes_when_there_are_enough_and_not_before() -> None:
    inbox = Inbox()
    thread, answers = waiting(inbox, enough=3)
    inbox.put(OUTCOME)
    inbox.put(OUTCOME)
    assert inbox._bell.empty()
    inbox.put(OUTCOME)
    thread.join(PATIENCE)
    assert answers == [True]
    assert len(inbox.take()) == 3


def test_inbox_does_not_wait_for_what_is_there() -> None:
    inbox = Inbox()
    inbox.put(OUTCOME)
    assert inbox.wait(PATIENCE, 1)


def beside(inbox: Inbox) -> tuple[threading.Thread, Listener]:
    """A thread that waits for a listener, and for what comes to the inbox."""
    listener = MemoryTransport(SystemClock()).listen(["q"])
    listener.clear()
    thread = threading.Thread(target=inbox.wait_beside, args=(listener, PATIENCE))
    thread.start()
    wait_for(lambda: inbox._listener is listener, "it waits")
    return thread, listener


@pytest.mark.parametrize("rings", [Inbox.ring, lambda inbox: inbox.put(OUTCOME)])
def test_inbox_wakes_who_waits_for_a_listener(rings: Callable[[Inbox], None]) -> None:
    inbox = Inbox()
    thread, _ = beside(inbox)
    rings(inbox)
    thread.join(PATIENCE)
    assert not thread.is_alive()
    assert inbox._bell.empty()


def test_inbox_takes_the_news_of_a_listener_for_a_notice() -> None:
    inbox = Inbox()
    thread, listener = beside(inbox)
    assert not inbox.take_notice()
    listener.wake()
    thread.join(PATIENCE)
    assert inbox.take_notice()


def test_inbox_does_not_wait_for_a_listener_when_something_is_there() -> None:
    listener = MemoryTransport(SystemClock()).listen(["q"])
    for rings in (Inbox.ring, lambda inbox: inbox.put(OUTCOME)):
        inbox = Inbox()
        rings(inbox)
        inbox.wait_beside(listener, PATIENCE)


def test_inbox_reports_that_time_is_up() -> None:
    inbox = Inbox()
    inbox.put(OUTCOME)
    assert not inbox.wait(0.0, 2)


def test_a_ring_before_the_wait_ends_it() -> None:
    inbox = Inbox()
    inbox.ring()
    assert inbox.wait(PATIENCE)
    assert not inbox.wait(0.0)


def test_a_notice_is_taken_once() -> None:
    inbox = Inbox()
    inbox.notice()
    assert inbox.wait(PATIENCE)
    assert inbox.take_notice()
    assert not inbox.take_notice()


def test_inbox_loses_nothing_under_contention() -> None:
    inbox, each = Inbox(), 5_000

    def put() -> None:
        for _ in range(each):
            inbox.put(OUTCOME)

    threads = [threading.Thread(target=put) for _ in range(4)]
    for thread in threads:
        thread.start()
    taken = 0
    while taken < 4 * each:
        assert inbox.wait(PATIENCE, min(64, 4 * each - taken))
        taken += len(inbox.take())
    assert taken == 4 * each


def test_backoff_doubles_up_to_five_seconds() -> None:
    backoff = Backoff(draw=lambda: 1.0)
    delays = [backoff.next() for _ in range(9)]
    assert delays == [0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    backoff.reset()
    assert backoff.next() == 0.05


def test_backoff_jitter_never_waits_less_than_half() -> None:
    assert Backoff(draw=lambda: 0.0).next() == 0.025


def test_tally_counts_by_kind() -> None:
    failure, tally = Failure(type="x"), Tally()
    tally.add([Ack(DELIVERY), Ack(DELIVERY), RetryLater(DELIVERY, 1.0, failure)])
    tally.add([DeadLetter(DELIVERY, "error", failure), Release(DELIVERY)])
    tally.add([Revoke(DELIVERY), Defer(DELIVERY, 1.0, "unknown_task")])
    report = tally.report(seconds=1.0, abandoned=2)
    assert (report.processed, report.succeeded, report.failed) == (5, 2, 1)
    assert (report.retried, report.released, report.abandoned) == (1, 1, 2)


def test_ticker_goes_on_after_a_duty_failed() -> None:
    ticker, calls, done = Ticker(), list[str](), threading.Event()

    def fails() -> None:
        calls.append("fails")
        raise RuntimeError("no")

    def works() -> None:
        calls.append("works")
        if calls.count("fails") >= 2:
            done.set()

    ticker.every(0.001, fails)
    ticker.every(0.001, works)
    ticker.start()
    assert done.wait(PATIENCE)
    ticker.stop()


def test_ticker_that_never_started_can_be_stopped() -> None:
    Ticker().stop()
