"""Handing out deliveries: at most one holder, counted first, in order."""

from __future__ import annotations

from taskmq.states import JobState
from taskmq.transport import Ack, Defer, Exchange, Release, RetryLater, Settled

from .case import case
from .checks import equal, holds, near, present
from .subject import FAILURE, LEASE, Subject


@case()
def delivery_describes_the_job(subject: Subject) -> None:
    """A delivery has the job's identity, its counters as raised, and the end of its lease."""
    job_id = subject.add(priority=3)
    delivery = subject.take(job_id, lease=20.0)
    equal((delivery.queue, delivery.priority), ("q", 3), "queue and priority")
    counters = (delivery.attempt, delivery.deliveries, delivery.reclaims, delivery.yields)
    equal(counters, (1, 1, 0, 0), "attempt, deliveries, reclaims, yields")
    near(delivery.lease_until, subject.clock.now() + 20, "lease_until")
    equal((delivery.parked_at, delivery.inputs), (None, None), "parked_at and inputs")


@case()
def counters_are_raised_before_the_worker_sees_the_delivery(subject: Subject) -> None:
    """When `reserve` returns, every other handle sees the job RUNNING and counted."""
    other = subject.open()
    job_id = subject.add()
    subject.clock.advance(2)
    subject.take(worker="worker-9", lease=30.0)
    record = present(other.get([job_id])[0], "the record")
    equal((record.state, record.deliveries), (JobState.RUNNING, 1), "state and deliveries")
    equal(record.worker, "worker-9", "worker")
    near(record.started_at, subject.clock.now(), "started_at")
    near(record.lease_until, subject.clock.now() + 30, "lease_until")


@case()
def reserved_job_has_one_holder(subject: Subject) -> None:
    """A job that is held is not reserved again, on any handle."""
    subject.add()
    subject.take()
    subject.idle(worker="worker-2")
    subject.transport = subject.open()
    subject.idle(worker="worker-3")


@case()
def no_more_than_the_limit_is_reserved(subject: Subject) -> None:
    """A reservation yields at most ``limit`` deliveries, and all there are below it."""
    subject.add_many(5)
    equal(len(subject.reserve(limit=3)), 3, "deliveries")
    equal(len(subject.reserve(limit=3)), 2, "deliveries of what is left")


@case()
def limit_of_zero_only_looks(subject: Subject) -> None:
    """With ``limit`` 0 nothing is reserved, and the answer tells what there is."""
    job_id = subject.add(priority=2)
    later = subject.add(eta=subject.clock.now() + 9)
    answer = subject.exchange(limit=0)
    equal(list(answer.deliveries), [], "deliveries")
    equal(answer.waiting_priority, 2, "waiting_priority")
    near(answer.next_due_at, subject.clock.now() + 9, "next_due_at")
    for unchanged in (job_id, later):
        equal(subject.record(unchanged).deliveries, 0, "deliveries that count")


@case()
def only_the_queues_asked_for(subject: Subject) -> None:
    """Jobs of other queues are neither reserved nor reported."""
    subject.add(queue="other", priority=9)
    answer = subject.exchange(queues=["q"], limit=10)
    equal(list(answer.deliveries), [], "deliveries")
    equal((answer.waiting_priority, answer.next_due_at), (None, None), "waiting and due")
    equal(len(subject.reserve(limit=10, queues=["q", "other"])), 1, "deliveries of both")


@case()
def empty_exchange_is_nothing(subject: Subject) -> None:
    """An exchange without settlements and reservation answers with nothing."""
    answer = subject.transport.exchange()
    equal(list(answer.settled), [], "settled")
    equal(list(answer.deliveries), [], "deliveries")
    equal(subject.settle(), [], "no settlements")


@case("fifo")
def first_in_first_out(subject: Subject) -> None:
    """Jobs of a queue and priority are handed out in the order of their enqueue."""
    ids = subject.add_many(4) + subject.add_many(4)
    got = [subject.take().job_id for _ in range(3)]
    got += [delivery.job_id for delivery in subject.reserve(limit=5)]
    equal(got, ids, "the order")


@case("fifo")
def delayed_job_has_its_place_from_its_enqueue(subject: Subject) -> None:
    """A job that becomes due comes before those that were enqueued after it."""
    delayed = subject.add(eta=subject.clock.now() + 5)
    prompt = subject.add()
    subject.clock.advance(5)
    equal([d.job_id for d in subject.reserve(limit=2)], [delayed, prompt], "the order")


@case()
def delayed_jobs_do_not_hold_up_others(subject: Subject) -> None:
    """Jobs that are not due, however urgent, neither block nor fill a reservation."""
    subject.add_many(200, eta=subject.clock.now() + 100, priority=9)
    job_id = subject.add(priority=-9)
    equal([d.job_id for d in subject.reserve(limit=50)], [job_id], "deliveries")


@case()
def every_delivery_has_a_token_of_its_own(subject: Subject) -> None:
    """Each reservation of a job has a new token, which is higher than the last."""
    subject.add()
    tokens: list[int] = []
    for _ in range(5):
        delivery = subject.take()
        tokens.append(delivery.token)
        subject.done(Release(delivery))
    equal(tokens, sorted(set(tokens)), "tokens rise")


@case()
def next_due_at_is_when_a_delayed_job_becomes_visible(subject: Subject) -> None:
    """``next_due_at`` is the earliest future visibility in these queues, ``None`` without one."""
    equal(subject.exchange().next_due_at, None, "in an empty store")
    now = subject.clock.now()
    subject.add(eta=now + 40)
    subject.add(eta=now + 20, queue="other")
    near(subject.exchange().next_due_at, now + 40, "for one queue")
    near(subject.exchange(queues=["q", "other"]).next_due_at, now + 20, "for both")


@case()
def next_due_at_is_when_a_lease_ends(subject: Subject) -> None:
    """``next_due_at`` counts running jobs: their lease may end, this exchange's included."""
    subject.add()
    now = subject.clock.now()
    answer = subject.exchange(lease=25.0)
    near(answer.next_due_at, now + 25, "right after the reservation")
    near(subject.exchange().next_due_at, now + 25, "on the next look")
    subject.done(Ack(answer.deliveries[0]))
    equal(subject.exchange().next_due_at, None, "when it is settled")


@case("global_priority")
def waiting_priority_is_what_was_left(subject: Subject) -> None:
    """``waiting_priority`` is the highest priority still ready after the reservation."""
    subject.add(priority=5)
    subject.add(priority=2, queue="other")
    both = ["q", "other"]
    equal(subject.exchange(limit=0, queues=both).waiting_priority, 5, "before")
    equal(subject.exchange(limit=1, queues=both).waiting_priority, 2, "after one")
    equal(subject.exchange(limit=1, queues=both).waiting_priority, None, "after both")


@case()
def exchange_settles_before_it_reserves(subject: Subject) -> None:
    """What a settlement gives back can be reserved by the same exchange."""
    first, second, third = subject.add_many(3)
    held = subject.reserve(limit=3)
    answer = subject.exchange(
        [Release(held[0]), Defer(held[1], 0.0), RetryLater(held[2], 0.0, FAILURE)], limit=5
    )
    equal(list(answer.settled), [Settled.DONE] * 3, "settled")
    got = sorted(delivery.job_id for delivery in answer.deliveries)
    equal(got, sorted([first, second, third]), "reserved again")


@case()
def exchange_is_parallel_to_its_settlements(subject: Subject) -> None:
    """``settled`` has one outcome a settlement, in order."""
    subject.add_many(2)
    good, lost = subject.reserve(limit=2, lease=LEASE)
    subject.done(Release(lost))
    answer: Exchange = subject.exchange([Ack(lost), Ack(good), Ack(good)], limit=0)
    expected = [Settled.LEASE_LOST, Settled.DONE, Settled.REPEATED]
    equal(list(answer.settled), expected, "settled")


@case()
def reserve_and_settle_are_halves_of_exchange(subject: Subject) -> None:
    """`reserve` and `settle` do what an exchange does without the other part."""
    subject.add()
    delivery = subject.take()
    holds(subject.settle(Ack(delivery)) == [Settled.DONE], "settle answers like exchange")
    subject.expect(delivery.job_id, JobState.SUCCEEDED, "after settle")


@case()
def repeated_reservations_of_nothing_are_harmless(subject: Subject) -> None:
    """Asking an empty store again and again changes nothing."""
    for _ in range(20):
        subject.idle(queues=["q", "r", "s"])
    equal(list(subject.transport.stats()), [], "no queue came into being")
