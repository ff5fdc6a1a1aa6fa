"""Settlements: each delivery once, by its holder only, and what it then means."""

from __future__ import annotations

from collections.abc import Callable

from taskmq.records import JobRecord
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
    Settled,
    Settlement,
)

from .case import case
from .checks import equal, holds, near
from .subject import FAILURE, LEASE, Subject, text

KINDS: dict[JobState | str, Callable[[Delivery], Settlement]] = {
    "ack": lambda delivery: Ack(delivery, text("value")),
    "retry": lambda delivery: RetryLater(delivery, 5.0, FAILURE),
    "nack": lambda delivery: Nack(delivery, 5.0, "crashed"),
    "dead letter": lambda delivery: DeadLetter(delivery, "error", FAILURE),
    "defer": lambda delivery: Defer(delivery, 5.0),
    "park": lambda delivery: Defer(delivery, 5.0, "unknown_task", 50.0),
    "release": Release,
    "expire": Expire,
    "revoke": Revoke,
}
AFTER = {
    "ack": JobState.SUCCEEDED,
    "retry": JobState.RETRYING,
    "nack": JobState.QUEUED,
    "dead letter": JobState.FAILED,
    "defer": JobState.QUEUED,
    "park": JobState.QUEUED,
    "release": JobState.QUEUED,
    "expire": JobState.EXPIRED,
    "revoke": JobState.REVOKED,
}


@case()
def success_keeps_the_result(subject: Subject) -> None:
    """An acked job is SUCCEEDED, with its result, its end, and no envelope any more."""
    job_id = subject.add()
    delivery = subject.take()
    subject.clock.advance(3)
    subject.done(Ack(delivery, text("value")))
    record = subject.expect(job_id, JobState.SUCCEEDED, "after its ack")
    equal(record.result, text("value"), "result")
    equal(record.envelope, b"", "envelope")
    near(record.finished_at, subject.clock.now(), "finished_at")
    equal((record.lease_until, record.failure), (None, None), "lease_until and failure")


@case()
def settled_job_is_never_delivered_again(subject: Subject) -> None:
    """After an ack nobody gets the job, not when its lease would have ended either."""
    subject.add()
    delivery = subject.take(lease=10.0)
    subject.done(Ack(delivery))
    for _ in range(3):
        subject.clock.advance(10)
        subject.transport.maintain()
        subject.idle()


@case()
def result_is_kept_only_if_the_envelope_says_so(subject: Subject) -> None:
    """Without ``store_result`` the state is kept and the result is not."""
    job_id = subject.add(store_result=False)
    subject.done(Ack(subject.take(), text("value")))
    equal(subject.expect(job_id, JobState.SUCCEEDED, "after its ack").result, None, "result")


@case()
def result_keeps_its_codec(subject: Subject) -> None:
    """A result's bytes and the name of its codec come back as they were."""
    result = text("x").__class__("own-codec", b"\x00\xff\x80 bytes")
    job_id = subject.add()
    subject.done(Ack(subject.take(), result))
    equal(subject.record(job_id).result, result, "result")


@case()
def success_without_retention_is_forgotten_at_once(subject: Subject) -> None:
    """With ``result_ttl`` 0 an acked job is unknown; other ends are kept a while."""
    done, dead = (subject.add(result_ttl=0.0) for _ in range(2))
    first, second = subject.hold([done, dead])
    subject.settle(Ack(first, text("value")), DeadLetter(second, "error", FAILURE))
    equal(subject.state(done), JobState.UNKNOWN, "state of the succeeded job")
    subject.expect(dead, JobState.FAILED, "with result_ttl 0")
    holds(subject.settle(Ack(first)) != [Settled.DONE], "a repeated ack does not take effect")


@case()
def each_settlement_leads_to_its_state(subject: Subject) -> None:
    """Every kind of settlement moves a running job as the table of transitions says."""
    for kind, settlement in KINDS.items():
        job_id = subject.add(queue=str(kind))
        subject.done(settlement(subject.take(job_id, queues=[str(kind)])))
        record = subject.expect(job_id, AFTER[str(kind)], f"after {kind}")
        equal(record.lease_until, None, f"lease_until after {kind}")
        holds(record.worker == "worker-1", f"worker is who had it last, after {kind}")


@case()
def settling_twice_changes_nothing(subject: Subject) -> None:
    """The same settlement again is REPEATED, whatever its kind, and changes nothing."""
    for kind, settlement in KINDS.items():
        job_id = subject.add(queue=str(kind))
        delivery = subject.take(job_id, queues=[str(kind)])
        subject.done(settlement(delivery))
        before = subject.record(job_id)
        subject.clock.advance(1)
        equal(subject.settle(settlement(delivery)), [Settled.REPEATED], f"a repeated {kind}")
        equal(subject.record(job_id), before, f"the job after a repeated {kind}")


@case()
def settling_twice_in_one_batch_counts_once(subject: Subject) -> None:
    """A settlement that stands twice in a batch takes effect once."""
    job_id = subject.add()
    delivery = subject.take()
    retry = RetryLater(delivery, 5.0, FAILURE)
    equal(subject.settle(retry, retry), [Settled.DONE, Settled.REPEATED], "outcomes")
    equal(subject.record(job_id).attempt, 2, "attempt")


@case()
def settling_otherwise_is_refused(subject: Subject) -> None:
    """After one settlement took effect, another kind with the same token is refused."""
    for kind, settlement in KINDS.items():
        job_id = subject.add(queue=str(kind))
        delivery = subject.take(job_id, queues=[str(kind)])
        subject.done(settlement(delivery))
        before = subject.record(job_id)
        for other, second in KINDS.items():
            if type(second(delivery)) is not type(settlement(delivery)):
                equal(subject.settle(second(delivery)), [Settled.LEASE_LOST], f"{other} ({kind})")
        equal(subject.record(job_id), before, f"the job after refused settlements ({kind})")


def _refused(subject: Subject, delivery: Delivery, when: str) -> None:
    before: JobRecord = subject.record(delivery.job_id)
    for kind, settlement in KINDS.items():
        outcome = subject.settle(settlement(delivery))
        equal(outcome, [Settled.LEASE_LOST], f"{kind} {when}")
    equal(subject.record(delivery.job_id), before, f"the job after late settlements {when}")


@case()
def late_settlement_is_refused(subject: Subject) -> None:
    """Once the job was taken back, its old holder's settlements are LEASE_LOST and change
    nothing: while it waits, while another holds it, and when that one has settled it."""
    subject.add()
    late = subject.take(lease=5.0)
    subject.clock.advance(5)
    subject.exchange(limit=0)
    _refused(subject, late, "after the reclaim")
    current = subject.take(worker="worker-2")
    _refused(subject, late, "while another holds it")
    subject.done(Ack(current, text("value")))
    _refused(subject, late, "after another settled it")


@case()
def lost_delivery_is_not_taken_for_a_settled_one(subject: Subject) -> None:
    """A late settlement of the kind that ended an earlier delivery is refused, not repeated."""
    job_id = subject.add()
    ways: list[Callable[[Delivery], Settlement]] = [
        Release,
        lambda delivery: Defer(delivery, 0.0),
        lambda delivery: RetryLater(delivery, 0.0, FAILURE),
    ]
    for settlement in ways:
        subject.done(settlement(subject.take(job_id)))
        late = subject.take(job_id, lease=5.0)
        subject.clock.advance(5)
        subject.exchange(limit=0)
        equal(subject.settle(settlement(late)), [Settled.LEASE_LOST], "the late settlement")


@case()
def settlement_before_anyone_took_the_job_back_counts(subject: Subject) -> None:
    """A lease that is over in time only, because nobody took the job back, still settles."""
    job_id = subject.add()
    delivery = subject.take(lease=5.0)
    subject.clock.advance(500)
    answer = subject.exchange([Ack(delivery)], limit=5)
    equal(list(answer.settled), [Settled.DONE], "settled")
    equal(list(answer.deliveries), [], "deliveries of the same exchange")
    subject.expect(job_id, JobState.SUCCEEDED, "after a late ack")


@case()
def old_settlement_after_a_new_reservation_is_refused(subject: Subject) -> None:
    """A settlement that took effect is refused, not repeated, once the job is held again."""
    subject.add()
    first = subject.take()
    release = Release(first)
    subject.done(release)
    subject.take(worker="worker-2")
    equal(subject.settle(release), [Settled.LEASE_LOST], "the old release")
    equal(subject.record(first.job_id).worker, "worker-2", "the holder")


@case()
def settlement_of_an_unknown_job_is_refused(subject: Subject) -> None:
    """A delivery of a job that the store does not know is LEASE_LOST."""
    subject.add(result_ttl=0.0)
    delivery = subject.take()
    subject.done(Ack(delivery))
    for settlement in KINDS.values():
        equal(subject.settle(settlement(delivery)), [Settled.LEASE_LOST], "outcome")


@case()
def refused_settlements_do_not_fail_the_others(subject: Subject) -> None:
    """In a mixed batch every settlement has its own outcome."""
    ids = subject.add_many(6)
    held = subject.hold(ids, lease=LEASE)
    subject.settle(Release(held[1]), Ack(held[3]))
    outcomes = subject.settle(*(Ack(delivery, text("value")) for delivery in held))
    done, lost = Settled.DONE, Settled.LEASE_LOST
    equal(outcomes, [done, lost, done, Settled.REPEATED, done, done], "outcomes")
    states = [subject.state(job_id) for job_id in ids]
    expected = [JobState.SUCCEEDED] * 6
    expected[1] = JobState.QUEUED
    equal(states, expected, "states")


@case()
def batch_of_every_kind_is_one_step(subject: Subject) -> None:
    """One call settles many deliveries, each in its own way."""
    ids = {str(kind): subject.add() for kind in KINDS}
    held = {delivery.job_id: delivery for delivery in subject.reserve(limit=len(ids))}
    batch = [settlement(held[ids[str(kind)]]) for kind, settlement in KINDS.items()]
    equal(subject.settle(*batch), [Settled.DONE] * len(batch), "outcomes")
    for kind, job_id in ids.items():
        subject.expect(job_id, AFTER[kind], f"after {kind} in a batch")


@case()
def large_batch_is_settled_whole(subject: Subject) -> None:
    """A batch of 2,000 settlements is one call."""
    subject.add_many(2_000)
    held = subject.reserve(limit=2_000)
    outcomes = subject.settle(*(Ack(delivery) for delivery in held))
    equal(outcomes.count(Settled.DONE), 2_000, "outcomes that took effect")
    subject.clock.advance(LEASE)
    subject.idle()
