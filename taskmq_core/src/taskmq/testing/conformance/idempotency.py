"""Idempotency keys: the same call twice is one job; another call with its key is an error."""

from __future__ import annotations

import threading
from typing import Any

from taskmq.envelope import Sealed
from taskmq.errors import IdempotencyConflict
from taskmq.records import JobFilter
from taskmq.states import JobState
from taskmq.transport import Ack, DeadLetter, Enqueued

from .case import case
from .checks import BrokenPromise, equal, raises
from .subject import FAILURE, Subject
from .threads import together

WINDOW = 3_600.0


def _keyed(subject: Subject, key: str = "order-1", **fields: Any) -> Sealed:
    return subject.job(key=key, key_ttl=WINDOW, **fields)


@case()
def same_call_with_same_key_is_one_job(subject: Subject) -> None:
    """The second enqueue stores nothing and gives the id of the first."""
    first = _keyed(subject, args=[1], kwargs={"a": 2})
    second = _keyed(subject, args=[1], kwargs={"a": 2})
    subject.transport.enqueue([first])
    answer = subject.transport.enqueue([second])
    equal(answer, [Enqueued(first.envelope.id, created=False)], "the answer")
    equal(subject.state(second.envelope.id), JobState.UNKNOWN, "state of the second id")
    equal(len(subject.reserve(limit=9)), 1, "deliveries")


@case()
def key_in_use_by_another_call_is_a_conflict(subject: Subject) -> None:
    """The same key with another task or other arguments is refused, and says whose it is."""
    first = _keyed(subject, args=[1])
    subject.transport.enqueue([first])
    others = [
        _keyed(subject, args=[2]),
        _keyed(subject, args=[1], kwargs={"a": 1}),
        _keyed(subject, task="demo.other", args=[1]),
        _keyed(subject, args=[1], codec="other-codec"),
    ]
    for other in others:
        try:
            subject.transport.enqueue([other])
        except IdempotencyConflict as error:
            equal((error.key, error.job_id), ("order-1", first.envelope.id), "key and owner")
        else:
            raise BrokenPromise(f"{other.data!r} was accepted with a key in use")
    equal(len(subject.transport.find(JobFilter())), 1, "stored jobs")


@case()
def conflict_rolls_the_whole_batch_back(subject: Subject) -> None:
    """Nothing of a batch with a conflict is stored: no job before or behind it, and no key."""
    subject.transport.enqueue([_keyed(subject, args=[1])])
    fresh = _keyed(subject, "fresh", args=[7])
    batch = [subject.job(), fresh, _keyed(subject, args=[2]), subject.job()]
    with raises(IdempotencyConflict, "a batch with a conflict"):
        subject.transport.enqueue(batch)
    equal(len(subject.transport.find(JobFilter())), 1, "stored jobs")
    (answer,) = subject.transport.enqueue([_keyed(subject, "fresh", args=[8])])
    equal(answer.created, True, "the key of a batch that was refused is free")


@case()
def key_counts_inside_one_batch_too(subject: Subject) -> None:
    """Of two equal calls in a batch the first is stored; two different ones are a conflict."""
    first, second = _keyed(subject, args=[1]), _keyed(subject, args=[1])
    answers = subject.transport.enqueue([first, subject.job(), second])
    equal([answer.created for answer in answers], [True, True, False], "created")
    equal(answers[2].job_id, first.envelope.id, "the id for the second")
    with raises(IdempotencyConflict, "two calls with one key"):
        batch = [_keyed(subject, "other", args=[1]), _keyed(subject, "other", args=[2])]
        subject.transport.enqueue(batch)
    equal(len(subject.transport.find(JobFilter())), 2, "stored jobs")


@case()
def key_is_free_after_its_window(subject: Subject) -> None:
    """A key stands for its job until ``key_ttl`` after the enqueue, and for no call after."""
    first = _keyed(subject, args=[1])
    subject.transport.enqueue([first])
    start = subject.clock.now()
    subject.clock.set(start + WINDOW - 0.01)
    (answer,) = subject.transport.enqueue([_keyed(subject, args=[1])])
    equal(answer, Enqueued(first.envelope.id, created=False), "just inside the window")
    subject.clock.set(start + WINDOW)
    (answer,) = subject.transport.enqueue([_keyed(subject, args=[2])])
    equal(answer.created, True, "after the window")
    (answer,) = subject.transport.enqueue([_keyed(subject, args=[2])])
    equal(answer.created, False, "inside the window of the second")


@case()
def key_outlives_its_job(subject: Subject) -> None:
    """Whatever became of the job, even if it was deleted, its key stands to its window's end."""
    for key, end in (("done", "ack"), ("dead", "bury"), ("gone", "forget")):
        sealed = _keyed(subject, key, queue=key, result_ttl=0.0 if end == "ack" else 9.0)
        subject.transport.enqueue([sealed])
        delivery = subject.take(queues=[key])
        if end == "bury":
            subject.done(DeadLetter(delivery, "error", FAILURE))
            subject.transport.bury([delivery.job_id])
        else:
            subject.done(Ack(delivery))
            subject.transport.forget([delivery.job_id])
        equal(subject.state(delivery.job_id), JobState.UNKNOWN, f"state after {end}")
        (answer,) = subject.transport.enqueue([_keyed(subject, key, queue=key)])
        equal(answer, Enqueued(delivery.job_id, created=False), f"the same call after {end}")


@case()
def purge_frees_the_keys(subject: Subject) -> None:
    """A purged job never ran: the same call may be enqueued again."""
    subject.transport.enqueue([_keyed(subject, args=[1])])
    equal(subject.transport.purge("q"), 1, "purged")
    subject.clock.advance(WINDOW)
    equal(subject.transport.maintain().keys_purged, 0, "keys purged after the purge")
    subject.transport.enqueue([_keyed(subject, args=[2])])
    subject.transport.purge("q")
    (answer,) = subject.transport.enqueue([_keyed(subject, args=[3])])
    equal(answer.created, True, "a call with the key")


@case()
def repeated_enqueue_of_a_keyed_job_is_harmless(subject: Subject) -> None:
    """The same envelope again, id and key, is answered with its id."""
    sealed = _keyed(subject, args=[1])
    subject.transport.enqueue([sealed])
    answer = subject.transport.enqueue([sealed])
    equal(answer, [Enqueued(sealed.envelope.id, created=False)], "the answer")


@case()
def keys_are_seen_on_every_handle(subject: Subject) -> None:
    """Another handle on the store knows the key at once."""
    subject.transport.enqueue([_keyed(subject, args=[1])])
    other = subject.open()
    equal(other.enqueue([_keyed(subject, args=[1])])[0].created, False, "created")
    with raises(IdempotencyConflict, "another call on another handle"):
        other.enqueue([_keyed(subject, args=[2])])


@case()
def maintain_forgets_keys_past_their_window(subject: Subject) -> None:
    """Keys do not pile up: `maintain` deletes those that stand for nothing, and counts them."""
    subject.transport.enqueue([_keyed(subject, f"key-{number}") for number in range(5)])
    equal(subject.transport.maintain().keys_purged, 0, "keys purged inside the window")
    subject.clock.advance(WINDOW)
    equal(subject.transport.maintain().keys_purged, 5, "keys purged")
    equal(subject.transport.maintain().keys_purged, 0, "keys purged again")


@case()
def one_job_for_many_threads_with_one_key(subject: Subject) -> None:
    """Callers at the same instant agree on one job."""
    barrier = threading.Barrier(6)
    handles = [subject.open() for _ in range(6)]
    answers: list[Enqueued] = []

    def call(number: int) -> None:
        barrier.wait(10)
        for turn in range(20):
            answers.extend(handles[number].enqueue([_keyed(subject, f"key-{turn}", args=[turn])]))

    together(call, 6)
    equal(sum(answer.created for answer in answers), 20, "jobs created by 120 calls")
    equal(len({answer.job_id for answer in answers}), 20, "different ids in the answers")
    equal(len(subject.transport.find(JobFilter())), 20, "stored jobs")
