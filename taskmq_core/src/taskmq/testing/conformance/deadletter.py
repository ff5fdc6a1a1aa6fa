"""Dead letters: kept with all that is known, replayed, edited, buried."""

from __future__ import annotations

from taskmq.records import Failure, JobFilter
from taskmq.states import Event, JobState
from taskmq.transport import Ack, DeadLetter, Nack, Release, RetryLater, Settled

from .case import case
from .checks import equal, holds, near
from .subject import FAILURE, LEASE, Subject


def _bury_alive(subject: Subject, job_id: str, *, queue: str = "q") -> None:
    subject.done(DeadLetter(subject.take(job_id, queues=[queue]), "error", FAILURE))


@case()
def dead_letter_keeps_all_that_is_known(subject: Subject) -> None:
    """Payload, reason, failure with traceback, counters and history stay readable."""
    sealed = subject.job("demo.mail", args=["to"], priority=2)
    job_id = sealed.envelope.id
    subject.transport.enqueue([sealed])
    subject.done(RetryLater(subject.take(), 0.0, Failure(type="builtins.OSError")))
    delivery = subject.take(worker="w2")
    subject.clock.advance(4)
    subject.done(DeadLetter(delivery, "max_attempts", FAILURE))
    record = subject.expect(job_id, JobState.FAILED, "after its dead letter")
    equal((record.dead_reason, record.failure), ("max_attempts", FAILURE), "reason and failure")
    equal(record.envelope, sealed.data, "payload")
    equal((record.attempt, record.deliveries, record.worker), (2, 2, "w2"), "counters and worker")
    near(record.finished_at, subject.clock.now(), "finished_at")
    events = [(entry.event, entry.attempt) for entry in record.history]
    equal(events, [(Event.RETRY.value, 1), (Event.DEAD.value, 2)], "history")
    holds("max_attempts" in record.history[-1].detail, "the last entry has the reason")


@case()
def malformed_envelope_is_kept_raw(subject: Subject) -> None:
    """Bytes that are no envelope are delivered, and kept as a dead letter, as they are."""
    sealed = subject.job()
    raw = sealed.__class__(sealed.envelope, b"\xff\x00 not json \x80")
    subject.transport.enqueue([raw])
    delivery = subject.take()
    equal(delivery.envelope, raw.data, "the delivered bytes")
    subject.done(DeadLetter(delivery, "malformed", FAILURE))
    record = subject.record(delivery.job_id)
    equal((record.envelope, record.dead_reason), (raw.data, "malformed"), "bytes and reason")


@case()
def dead_letters_are_listed_by_filter_and_page(subject: Subject) -> None:
    """Dead letters are found by queue, task and page, oldest first, and nothing else is."""
    ids = subject.add_many(25)
    held = {delivery.job_id: delivery for delivery in subject.reserve(limit=25)}
    subject.settle(*(DeadLetter(held[job_id], "error", FAILURE) for job_id in ids))
    other = subject.add("demo.other", "r")
    _bury_alive(subject, other, queue="r")
    subject.add_many(5)
    find = subject.transport.find
    by_queue = [record.id for record in find(JobFilter(dead=True, queue="r"))]
    equal(by_queue, [other], "by queue")
    by_task = [record.id for record in find(JobFilter(dead=True, task="demo.other"))]
    equal(by_task, [other], "by task")
    seen: list[str] = []
    while page := find(JobFilter(dead=True, after=seen[-1] if seen else None, limit=10)):
        seen += [record.id for record in page]
    equal(seen, [*ids, other], "the pages")


@case()
def replayed_job_starts_anew(subject: Subject) -> None:
    """A replay queues the job under its own id: attempt 1, counters 0, history kept."""
    sealed = subject.job(max_deliveries=3)
    job_id = sealed.envelope.id
    subject.transport.enqueue([sealed])
    subject.done(Nack(subject.take()))
    subject.done(RetryLater(subject.take(), 0.0, FAILURE))
    subject.done(Release(subject.take()))
    _bury_alive(subject, job_id)
    subject.clock.advance(100)
    equal(subject.transport.replay([job_id], {}), [True], "the answer")
    record = subject.expect(job_id, JobState.QUEUED, "after a replay")
    counters = (record.attempt, record.deliveries, record.reclaims)
    equal(counters, (1, 0, 0), "attempt, deliveries, reclaims")
    unset = (record.dead_reason, record.failure, record.finished_at, record.cancel_requested)
    equal(unset, (None, None, None, False), "what belonged to its death")
    near(record.visible_at, subject.clock.now(), "visible_at")
    events = [entry.event for entry in record.history]
    told = [Event.NACK, Event.RETRY, Event.DEAD, Event.REPLAY]
    equal(events, [event.value for event in told], "history")
    delivery = subject.take(job_id)
    equal((delivery.envelope, delivery.yields), (sealed.data, 0), "envelope and yields")
    subject.done(Ack(delivery))


@case()
def replayed_job_has_its_whole_ceiling_again(subject: Subject) -> None:
    """Reclaims of its former life do not count."""
    job_id = subject.add(max_deliveries=2)
    for _ in range(2):
        for _ in range(2):
            subject.expect(job_id, JobState.QUEUED, "before its ceiling")
            subject.done(Nack(subject.take(job_id)))
        subject.expect(job_id, JobState.FAILED, "after two lost deliveries")
        subject.transport.replay([job_id], {})


@case()
def edited_dead_letter_is_replayed_as_edited(subject: Subject) -> None:
    """A replay may bring another envelope, and with it arguments, queue, priority, expiry."""
    job_id = subject.add(args=[1], expires_at=subject.clock.now() + 10)
    _bury_alive(subject, job_id)
    subject.clock.advance(50)
    edited = subject.job(id=job_id, queue="other", args=[2], priority=7, max_deliveries=1)
    equal(subject.transport.replay([job_id], {job_id: edited}), [True], "the answer")
    record = subject.expect(job_id, JobState.QUEUED, "after edit and replay")
    columns = (record.queue, record.priority, record.expires_at, record.max_deliveries)
    equal(columns, ("other", 7, None, 1), "queue, priority, expires_at, max_deliveries")
    depths = [(stats.queue, stats.ready, stats.dead) for stats in subject.transport.stats()]
    equal(depths, [("other", 1, 0)], "depths")
    equal(subject.take(job_id, queues=["other"]).envelope, edited.data, "the envelope")


@case()
def only_dead_letters_are_replayed(subject: Subject) -> None:
    """An id that is no dead letter is answered with false and left alone."""
    dead, done, running, queued = subject.add_many(4)
    _bury_alive(subject, dead)
    subject.done(Ack(subject.take(done)))
    subject.take(running)
    asked = [queued, running, done, dead, "01UNKNOWN", dead]
    answer = subject.transport.replay(asked, {})
    equal(answer, [False, False, False, True, False, False], "the answer")
    subject.expect(queued, JobState.QUEUED, "after a refused replay")
    subject.expect(running, JobState.RUNNING, "after a refused replay")
    subject.expect(done, JobState.SUCCEEDED, "after a refused replay")
    equal(subject.transport.replay([], {}), [], "nothing to replay")


@case()
def settlement_from_before_a_replay_is_refused(subject: Subject) -> None:
    """A worker that comes back after its job was replayed cannot settle the new run."""
    job_id = subject.add(max_deliveries=1)
    zombie = subject.take(lease=5.0)
    subject.clock.advance(5)
    subject.exchange(limit=0)
    subject.transport.replay([job_id], {})
    equal(subject.settle(Ack(zombie)), [Settled.LEASE_LOST], "while it is queued again")
    subject.take(job_id)
    equal(subject.settle(Ack(zombie)), [Settled.LEASE_LOST], "while another holds it")
    subject.expect(job_id, JobState.RUNNING, "after a late ack")


@case()
def buried_job_is_unknown(subject: Subject) -> None:
    """`bury` deletes dead letters, and only those; it counts them."""
    dead, queued = subject.add_many(2)
    _bury_alive(subject, dead)
    equal(subject.transport.bury([dead, queued, "01UNKNOWN"]), 1, "buried")
    equal(subject.state(dead), JobState.UNKNOWN, "state of the buried job")
    subject.expect(queued, JobState.QUEUED, "after a refused bury")
    equal(subject.transport.bury([dead]), 0, "buried again")
    equal(subject.transport.replay([dead], {}), [False], "replay of the buried")


@case()
def dead_letters_are_kept_until_buried(subject: Subject) -> None:
    """No retention ends a dead letter, whatever its ``result_ttl``; nor does `forget`."""
    ids = [subject.add(result_ttl=ttl) for ttl in (0.0, 1.0)]
    held = subject.reserve(limit=2, lease=LEASE)
    subject.settle(*(DeadLetter(delivery, "error", FAILURE) for delivery in held))
    subject.clock.advance(10 * 365 * 86_400.0)
    subject.transport.maintain()
    equal(subject.transport.forget(ids), 0, "forgotten")
    for job_id in ids:
        subject.expect(job_id, JobState.FAILED, "ten years later")


@case("fifo")
def thousand_dead_letters_are_replayed_in_one_call(subject: Subject) -> None:
    """A replay of many is one step, and they come back in their order."""
    ids = subject.add_many(1_000)
    held = subject.reserve(limit=1_000)
    subject.settle(*(DeadLetter(delivery, "error", FAILURE) for delivery in held))
    equal(subject.transport.replay(ids, {}), [True] * 1_000, "the answers")
    equal([d.job_id for d in subject.reserve(limit=1_000)] == ids, True, "their order")
