"""Durability: what was acknowledged is there after every process has ended."""

from __future__ import annotations

from taskmq.records import JobFilter, WorkerRecord
from taskmq.states import JobState
from taskmq.transport import Ack, DeadLetter, Defer, LeaseStatus, RetryLater, Revoke, Settled

from . import processes
from .case import case
from .checks import equal, holds
from .subject import FAILURE, Subject, text


def _populate(subject: Subject) -> None:
    """One job in every state that there is."""
    done, retrying, parked, dead, revoked, running, _ = subject.add_many(7, priority=2)
    held = {delivery.job_id: delivery for delivery in subject.reserve(limit=6, lease=500.0)}
    subject.settle(
        Ack(held[done], text("value")),
        RetryLater(held[retrying], 50.0, FAILURE),
        Defer(held[parked], 50.0, "unknown_task", 500.0),
        DeadLetter(held[dead], "error", FAILURE),
        Revoke(held[revoked]),
    )
    subject.transport.revoke([running])
    subject.add(eta=subject.clock.now() + 70, expires_at=subject.clock.now() + 900)


@case("durable")
def every_record_survives(subject: Subject) -> None:
    """Jobs in every state are the same after a reopen, and so is their order."""
    _populate(subject)
    before = subject.transport.find(JobFilter())
    stats = list(subject.transport.stats())
    subject.reopen()
    equal(subject.transport.find(JobFilter()), before, "the jobs")
    equal(list(subject.transport.stats()), stats, "the stats")


@case("durable")
def deliveries_outlive_the_handle(subject: Subject) -> None:
    """A lease is not bound to a connection: it is extended and settled on a new one."""
    first, second = subject.add_many(2)
    one, two = subject.reserve(limit=2)
    subject.reopen()
    subject.idle()
    equal(subject.transport.extend([one, two], 99.0), [LeaseStatus.HELD] * 2, "statuses")
    subject.done(Ack(one, text("value")))
    subject.reopen()
    equal(subject.settle(Ack(one, text("value"))), [Settled.REPEATED], "the ack again")
    equal(subject.record(first).result, text("value"), "result")
    subject.clock.advance(99)
    equal(subject.take(second).reclaims, 1, "reclaims of the other")


@case("durable")
def order_goes_on_after_a_reopen(subject: Subject) -> None:
    """Jobs enqueued after a reopen stand behind those from before."""
    before = subject.add_many(3)
    subject.reopen()
    after = subject.add_many(3)
    got = [delivery.job_id for delivery in subject.reserve(limit=6)]
    equal(got, before + after, "the order")


@case("durable")
def tokens_are_new_after_a_reopen(subject: Subject) -> None:
    """A delivery from before cannot settle a reservation from after."""
    subject.add()
    old = subject.take(lease=5.0)
    subject.reopen()
    subject.clock.advance(5)
    new = subject.take()
    holds(new.token != old.token, "the token is new")
    equal(subject.settle(Ack(old)), [Settled.LEASE_LOST], "the old ack")


@case("durable")
def keys_leases_and_workers_survive(subject: Subject) -> None:
    """Idempotency keys, named leases and the registry are the same after a reopen."""
    job_id = subject.add(key="k", key_ttl=100.0)
    now = subject.clock.now()
    worker = WorkerRecord(
        id="w",
        queues=("q",),
        pool="solo",
        concurrency=1,
        started_at=now,
        heartbeat_at=now,
        heartbeat_interval=5.0,
    )
    subject.transport.register(worker)
    subject.transport.acquire("leader", "a", 100.0)
    subject.reopen()
    (answer,) = subject.transport.enqueue([subject.job(key="k", key_ttl=100.0)])
    equal((answer.job_id, answer.created), (job_id, False), "a call with the key")
    equal(subject.transport.acquire("leader", "b", 100.0), False, "acquired by another")
    equal(subject.transport.workers(), [worker], "workers")


@case("durable", "dependencies")
def workflow_goes_on_after_a_reopen(subject: Subject) -> None:
    """Who waits for whom, and what was handed over, is the same after a reopen."""
    a, b = subject.add_many(2)
    waiting = subject.add(after=[a, b])
    subject.done(Ack(subject.take(a), text("one")))
    subject.reopen()
    subject.done(Ack(subject.take(b), text("two")))
    subject.reopen()
    equal(subject.take(waiting).inputs, {a: text("one"), b: text("two")}, "inputs")


@case("shared")
def closing_one_handle_leaves_the_others(subject: Subject) -> None:
    """`close` releases one handle; a second close does nothing, and other handles go on."""
    handle = subject.open()
    handle.close()
    handle.close()
    subject.add()
    subject.take()


@case("durable", "shared", "dependencies")
def settlement_is_whole_whenever_its_process_dies(subject: Subject) -> None:
    """A process killed while it settles leaves no success without its result, and none whose
    dependent does not know of it."""
    pairs: list[tuple[str, str]] = []
    for _ in range(300):
        sealed = subject.job()
        waiting = subject.job(queue="after", after=[sealed.envelope.id])
        subject.transport.enqueue([sealed, waiting])
        pairs.append((sealed.envelope.id, waiting.envelope.id))
    done = 0
    for exchanges in (3, 8, 20):
        processes.settle_and_die(subject, exchanges=exchanges)
        for first_id, second_id in pairs:
            first, second = subject.record(first_id), subject.record(second_id)
            succeeded = first.state is JobState.SUCCEEDED
            done += succeeded
            equal(first.result, text(first_id) if succeeded else None, "result")
            expected = JobState.QUEUED if succeeded else JobState.WAITING
            equal(second.state, expected, f"state of what waits for a {first.state} job")
    holds(done > 0, "some settlements took effect before the kills")


@case("durable", "shared")
def acknowledged_enqueue_survives_the_death_of_its_process(subject: Subject) -> None:
    """Every id that a producer got an answer for is stored, if it is killed right after."""
    acknowledged = processes.acknowledged_before_death(subject, count=50)
    records = subject.transport.get(acknowledged)
    states = {record.state if record else JobState.UNKNOWN for record in records}
    equal(states, {JobState.QUEUED}, "states of the acknowledged jobs")
