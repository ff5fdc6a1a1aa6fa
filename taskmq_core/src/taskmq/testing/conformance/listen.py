"""Wake-ups: who waits hears of everything new, at once and without polling."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from taskmq.transport import Ack, DeadLetter, Defer, Listener, Release, RetryLater

from .case import case
from .checks import equal, holds
from .subject import FAILURE, Subject
from .threads import PATIENCE, together

ROUNDS = 1_000
SHORT = 0.05


def _wakes(subject: Subject, listener: Listener, change: Callable[[], object], what: str) -> None:
    """A change after a clear ends the wait, if it comes before the wait begins or after."""
    listener.clear()
    change()
    holds(listener.wait(PATIENCE), f"{what} ends a wait")


@case()
def wait_without_news_times_out(subject: Subject) -> None:
    """With nothing new, a wait is over after its timeout, and not before."""
    listener = subject.transport.listen(["q"])
    listener.clear()
    started = time.monotonic()
    equal(listener.wait(SHORT), False, "the answer")
    holds(time.monotonic() - started >= SHORT * 0.9, "the wait lasted as long as its timeout")
    equal(listener.wait(0.0), False, "the answer without time")
    listener.close()


@case()
def change_after_the_clear_is_not_missed(subject: Subject) -> None:
    """What happened between clear and wait ends the wait at once, until it is cleared."""
    listener = subject.transport.listen(["q"])
    listener.clear()
    subject.add()
    equal(listener.wait(PATIENCE), True, "the first wait")
    equal(listener.wait(PATIENCE), True, "a second wait without a clear")
    subject.take()
    listener.close()


@case()
def call_back_comes_once_for_what_would_end_a_wait(subject: Subject) -> None:
    """A listener that calls back does so once, for a change after the clear: at once if that came
    before it was asked to, else when it comes. One that cannot says so."""
    listener, other = subject.transport.listen(["q"]), subject.open()
    called = threading.Semaphore(0)

    def calls_back() -> bool:
        return listener.call_back(called.release)

    listener.clear()
    other.enqueue([subject.job()])
    holds(listener.wait(PATIENCE), "the change is known here")
    if calls_back():
        holds(called.acquire(timeout=PATIENCE), "a change before is told at once")
        listener.clear()
        holds(calls_back(), "it calls back again")
        equal(called.acquire(timeout=SHORT), False, "called without news")
        other.enqueue([subject.job()])
        holds(called.acquire(timeout=PATIENCE), "a change is told when it comes")
        other.enqueue([subject.job()])
        holds(listener.wait(PATIENCE), "the wait is not disturbed")
        equal(called.acquire(timeout=SHORT), False, "called for what nobody asked to hear")
        listener.wake()
        holds(calls_back() and called.acquire(timeout=PATIENCE), "what was signalled stays so")
    listener.close()


@case()
def enqueue_elsewhere_wakes_a_waiting_thread(subject: Subject) -> None:
    """A thread that waits is woken by an enqueue on another handle."""
    listener, other = subject.transport.listen(["q"]), subject.open()
    listener.clear()
    begun = threading.Event()
    answers: list[bool] = []

    def body(number: int) -> None:
        if number == 0:
            begun.set()
            answers.append(listener.wait(PATIENCE))
        else:
            begun.wait(PATIENCE)
            other.enqueue([subject.job()])

    together(body, 2)
    equal(answers, [True], "the answer")
    listener.close()


@case()
def everything_that_brings_work_wakes(subject: Subject) -> None:
    """A listener hears of jobs given back, retried, deferred, unparked, replayed and reclaimed;
    and of delayed jobs and the reservations of others, since they change when to look next."""
    listener = subject.transport.listen(["q"])
    other = subject.transport = subject.open()
    now = subject.clock.now()
    _wakes(subject, listener, lambda: subject.add(eta=now + 500), "a delayed enqueue")
    subject.add_many(6)
    _wakes(subject, listener, lambda: subject.reserve(limit=1, lease=10.0), "a reservation")
    one, two, three, four, five = subject.reserve(limit=5, lease=10.0)
    _wakes(subject, listener, lambda: subject.done(Release(one)), "a release")
    _wakes(subject, listener, lambda: subject.done(RetryLater(two, 99.0, FAILURE)), "a retry")
    _wakes(subject, listener, lambda: subject.done(Defer(three, 99.0)), "a defer")
    subject.done(Defer(four, 99.0, "unknown_task", 999.0))
    _wakes(subject, listener, lambda: other.unpark(["demo.task"]), "an unpark")
    subject.done(DeadLetter(five, "error", FAILURE))
    _wakes(subject, listener, lambda: other.replay([five.job_id], {}), "a replay")
    subject.clock.advance(10)
    _wakes(subject, listener, other.maintain, "a reclaim")
    listener.close()


@case("dependencies")
def job_set_free_by_its_dependency_wakes(subject: Subject) -> None:
    """A listener on the dependent's queue hears when it is queued."""
    first = subject.add(queue="other")
    subject.add(after=[first])
    delivery = subject.take(first, queues=["other"])
    listener = subject.open().listen(["q"])
    _wakes(subject, listener, lambda: subject.done(Ack(delivery)), "the last dependency's success")
    listener.close()


@case()
def every_queue_listened_to_wakes(subject: Subject) -> None:
    """One listener may listen to several queues."""
    listener = subject.transport.listen(["a", "b", "c"])
    for queue in ("c", "a", "b"):
        _wakes(subject, listener, lambda queue=queue: subject.add(queue=queue), queue)  # type: ignore[misc]  # the default binds the loop's value
    listener.close()


@case()
def end_of_a_job_wakes(subject: Subject) -> None:
    """Whoever waits for a job hears of its end, whatever end it is, on another handle."""
    other = subject.open()
    ends: dict[str, Callable[[str], object]] = {
        "success": lambda job_id: subject.done(Ack(subject.take(job_id))),
        "death": lambda job_id: subject.done(DeadLetter(subject.take(job_id), "error", FAILURE)),
        "revoke": lambda job_id: subject.transport.revoke([job_id]),
        "purge": lambda job_id: subject.transport.purge("q"),
    }
    for what, end in ends.items():
        job_id = subject.add()
        listener = other.listen(jobs=[job_id])
        _wakes(subject, listener, lambda end=end, job_id=job_id: end(job_id), what)  # type: ignore[misc]  # the defaults bind the loop's values
        listener.close()


@case()
def expiry_of_a_job_wakes(subject: Subject) -> None:
    """Whoever waits for a job hears when it expires."""
    job_id = subject.add(expires_at=subject.clock.now() + 5)
    listener = subject.open().listen(jobs=[job_id])
    subject.clock.advance(5)
    _wakes(subject, listener, subject.transport.maintain, "an expiry")
    listener.close()


@case("dependencies")
def skipping_of_a_job_wakes(subject: Subject) -> None:
    """Whoever waits for a job hears when it is skipped."""
    first = subject.add()
    second = subject.add(after=[first])
    listener = subject.open().listen(jobs=[second])
    _wakes(subject, listener, lambda: subject.transport.revoke([first]), "a skip")
    listener.close()


@case()
def wake_ends_a_wait(subject: Subject) -> None:
    """`wake` ends the next wait, and one that another thread is in; a clear forgets it."""
    listener = subject.transport.listen()
    listener.clear()
    listener.wake()
    listener.wake()
    equal(listener.wait(PATIENCE), True, "a wait after wake")
    listener.clear()
    equal(listener.wait(0.0), False, "a wait after clear")
    begun = threading.Event()
    answers: list[bool] = []

    def body(number: int) -> None:
        if number == 0:
            begun.set()
            answers.append(listener.wait(None))
        else:
            begun.wait(PATIENCE)
            listener.wake()

    together(body, 2)
    equal(answers, [True], "a wait that was under way")
    listener.close()


@case()
def closing_one_listener_leaves_the_others(subject: Subject) -> None:
    """Listeners are independent; closing one changes nothing for another."""
    first, second = subject.transport.listen(["q"]), subject.transport.listen(["q"])
    first.close()
    _wakes(subject, second, subject.add, "an enqueue")
    second.close()
    subject.add()


@case("wakeups")
def no_wake_up_is_lost(subject: Subject) -> None:
    """In a thousand rounds of clear, look and wait against enqueues on another handle, no wait
    sleeps through a job."""
    listener = subject.transport.listen(["q"])
    _meet(subject, listener, ROUNDS, lambda: listener.wait(PATIENCE))


@case("wakeups")
def no_call_back_is_lost(subject: Subject) -> None:
    """The same where nobody waits, but is called back, if the listener does that."""
    listener = subject.transport.listen(["q"])
    news = threading.Semaphore(0)

    def hears() -> bool:
        if listener.call_back(news.release):
            return news.acquire(timeout=PATIENCE)
        return listener.wait(PATIENCE)

    _meet(subject, listener, ROUNDS // 2, hears)


def _meet(subject: Subject, listener: Listener, rounds: int, hears: Callable[[], bool]) -> None:
    other, taken = subject.open(), threading.Semaphore(0)

    def produce() -> None:
        for number in range(rounds):
            for _ in range(number % 7 * 200):
                pass  # meet the consumer at another point in every round
            other.enqueue([subject.job()])
            holds(taken.acquire(timeout=PATIENCE), "the consumer is alive")

    def consume() -> None:
        for number in range(rounds):
            while True:
                listener.clear()
                if held := subject.reserve():
                    break
                holds(hears(), f"round {number} is woken by its job")
            subject.done(Ack(held[0]))
            taken.release()

    together(lambda number: (produce, consume)[number](), 2)
    listener.close()
