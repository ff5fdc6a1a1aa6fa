"""Conditions, failing fast, spawning and delegating: what workflows are made of."""

from __future__ import annotations

from typing import Any

from taskmq.errors import UnknownDependency
from taskmq.limits import Limit
from taskmq.records import Loss
from taskmq.states import JobState
from taskmq.transport import Ack, DeadLetter, Delegate, LeaseStatus, RetryLater, Settled

from .case import case
from .checks import equal, raises
from .subject import FAILURE, LEASE, Subject, text

S = JobState


def _die(subject: Subject, job_id: str) -> None:
    subject.done(DeadLetter(subject.take(job_id), "error", FAILURE))


def _succeed(subject: Subject, job_id: str, value: str = "value") -> None:
    subject.done(Ack(subject.take(job_id), text(value)))


def _states(subject: Subject, *job_ids: str) -> list[JobState]:
    return [subject.state(job_id) for job_id in job_ids]


# -- conditions ------------------------------------------------------------------------------------


@case("workflows")
def finished_runs_however_they_ended(subject: Subject) -> None:
    """Once all of them have; it hears what the successful ones gave, and how the others ended."""
    good, bad, revoked = subject.add_many(3)
    late = subject.add(queue="late", expires_at=subject.clock.now() + 5)
    skipped = subject.add(after=[bad])
    last = subject.add(after=[good, bad, revoked, late, skipped], run_if="finished")
    _succeed(subject, good)
    _die(subject, bad)
    subject.transport.revoke([revoked])
    equal(subject.expect(last, S.WAITING, "while one waits").pending, 1, "pending")
    subject.clock.advance(5)
    subject.exchange(limit=0, queues=["late"])
    delivery = subject.take(last)
    equal(delivery.inputs, {good: text("value")}, "inputs")
    expected = {
        bad: Loss(state="FAILED", reason="error", failure=FAILURE),
        revoked: Loss(state="REVOKED"),
        late: Loss(state="EXPIRED"),
        skipped: Loss(state="SKIPPED"),
    }
    equal(delivery.losses, expected, "losses")


@case("workflows")
def failed_runs_if_one_was_lost(subject: Subject) -> None:
    """And waits for the others all the same."""
    good, bad = subject.add_many(2)
    handler = subject.add(after=[good, bad], run_if="failed")
    deliveries = subject.hold([good, bad])
    subject.done(DeadLetter(deliveries[1], "error", FAILURE))
    equal(subject.state(handler), S.WAITING, "state while one runs")
    subject.done(Ack(deliveries[0], text("value")))
    delivery = subject.take(handler)
    equal(delivery.inputs, {good: text("value")}, "inputs")
    equal(list(delivery.losses or ()), [bad], "losses")


@case("workflows")
def failed_is_skipped_if_all_succeed(subject: Subject) -> None:
    """So is what waits for it, unless that runs anyhow."""
    first = subject.add()
    handler = subject.add(after=[first], run_if="failed")
    behind = subject.add(after=[handler])
    finally_ = subject.add(after=[handler], run_if="finished")
    _succeed(subject, first)
    equal(_states(subject, handler, behind, finally_), [S.SKIPPED, S.SKIPPED, S.QUEUED], "states")
    equal(subject.take(finally_).losses, {handler: Loss(state="SKIPPED")}, "losses")


@case("workflows")
def conditions_hold_for_what_has_ended_before(subject: Subject) -> None:
    """A job may be stored after those that it waits for have ended."""
    good, bad = subject.add_many(2)
    _succeed(subject, good)
    _die(subject, bad)
    finished = subject.add(after=[good, bad], run_if="finished")
    failed = subject.add(after=[good, bad], run_if="failed")
    unneeded = subject.add(after=[good], run_if="failed")
    equal(_states(subject, finished, failed, unneeded), [S.QUEUED, S.QUEUED, S.SKIPPED], "states")
    equal(list(subject.take(finished).losses or ()), [bad], "losses")


@case("workflows")
def batch_may_hold_what_is_lost_at_once(subject: Subject) -> None:
    """A job that is skipped when it is stored counts as ended for those that wait for it."""
    bad = subject.add()
    _die(subject, bad)
    skipped = subject.job(after=[bad])
    behind = subject.job(after=[skipped.envelope.id])
    finally_ = subject.job(after=[behind.envelope.id], run_if="finished")
    subject.transport.enqueue([finally_, behind, skipped])
    ids = [sealed.envelope.id for sealed in (skipped, behind, finally_)]
    equal(_states(subject, *ids), [S.SKIPPED, S.SKIPPED, S.QUEUED], "states")


@case("workflows")
def what_it_heard_is_kept_for_a_second_run(subject: Subject) -> None:
    """A retry gets inputs and losses again, although the others are gone."""
    good, bad = subject.add_many(2)
    last = subject.add(after=[good, bad], run_if="finished")
    _succeed(subject, good)
    _die(subject, bad)
    delivery = subject.take(last)
    subject.done(RetryLater(delivery, 0.0, FAILURE))
    subject.transport.bury([bad])
    subject.transport.forget([good])
    again = subject.take(last)
    equal((again.inputs, again.losses), (delivery.inputs, delivery.losses), "inputs and losses")


@case("workflows")
def deleted_job_is_lost(subject: Subject) -> None:
    """A purge ends the wait of those that run anyhow."""
    first = subject.add()
    last = subject.add(after=[first], run_if="finished", queue="r")
    subject.transport.purge("q")
    (delivery,) = subject.reserve(queues=["r"])
    equal((delivery.job_id, delivery.losses), (last, {first: Loss(state="UNKNOWN")}), "losses")


@case("workflows")
def replayed_job_is_awaited_again(subject: Subject) -> None:
    """By whoever still waits, with what was skipped in between."""
    bad, other = subject.add_many(2)
    middle = subject.add(after=[bad])
    last = subject.add(after=[middle, other], run_if="finished")
    _die(subject, bad)
    equal(subject.expect(last, S.WAITING, "after the skip").pending, 1, "pending")
    subject.transport.replay([bad], {})
    equal(subject.state(middle), S.WAITING, "state of the skipped one")
    equal(subject.expect(last, S.WAITING, "after the replay").pending, 2, "pending")
    for job_id in (bad, other, middle):
        _succeed(subject, job_id)
    delivery = subject.take(last)
    equal((len(delivery.inputs or ()), delivery.losses), (2, None), "inputs and losses")


@case("workflows")
def what_ran_is_not_awaited_again(subject: Subject) -> None:
    """A replay leaves alone what has run because of the loss."""
    bad = subject.add()
    handler = subject.add(after=[bad], run_if="failed")
    _die(subject, bad)
    _succeed(subject, handler)
    subject.transport.replay([bad], {})
    _succeed(subject, bad)
    equal(subject.state(handler), S.SUCCEEDED, "state of the handler")
    subject.idle()


# -- failing fast ----------------------------------------------------------------------------------


@case("workflows")
def failing_fast_revokes_the_workflow(subject: Subject) -> None:
    """What waits or is ready is taken out, what runs is asked to stop, handlers run."""
    bad, ready, running = (subject.add(workflow="w", fail_fast=True) for _ in range(3))
    behind = subject.add(after=[bad], workflow="w")
    later = subject.add(after=[ready], workflow="w")
    handler = subject.add(after=[bad, ready, running], run_if="failed", workflow="w")
    other = subject.add(workflow="another")
    deliveries = subject.hold([bad, ready, running])
    subject.done(RetryLater(deliveries[1], 30.0, FAILURE))
    subject.done(DeadLetter(deliveries[0], "error", FAILURE))
    states = _states(subject, bad, ready, later, behind, running, handler, other)
    expected = [S.FAILED, S.REVOKED, S.REVOKED, S.SKIPPED, S.RUNNING, S.WAITING, S.QUEUED]
    equal(states, expected, "states")
    equal(subject.record(ready).revoked_by, "workflow", "revoked_by")
    status = subject.transport.check([deliveries[2]])
    equal(status, [LeaseStatus.CANCEL_REQUESTED], "what the running one is told")
    subject.done(Ack(deliveries[2]))
    equal({d.job_id for d in subject.reserve(5)}, {handler, other}, "reserved")


@case("workflows")
def failing_fast_keeps_the_order_of_an_exchange(subject: Subject) -> None:
    """A success that is settled behind the failure was asked to stop; one before it was not."""
    first, bad, last = (subject.add(workflow="w", fail_fast=True) for _ in range(3))
    early, failing, late = subject.hold([first, bad, last])
    subject.settle(Ack(early), DeadLetter(failing, "error", FAILURE), Ack(late))
    for job_id, by in ((first, None), (last, "workflow")):
        equal(subject.expect(job_id, S.SUCCEEDED, "in the end").revoked_by, by, "revoked_by")


@case("workflows")
def lost_worker_fails_fast_too(subject: Subject) -> None:
    """Any way into the dead letters, and an expiry; not a revocation."""
    for ending in ("lost", "expired", "revoked"):
        fields: dict[str, Any] = {}
        if ending == "expired":
            fields["expires_at"] = subject.clock.now() + 5
        bad = subject.add(workflow=ending, fail_fast=True, max_deliveries=1, **fields)
        other = subject.add(workflow=ending, queue="r")
        if ending == "lost":
            subject.take(bad)
        if ending == "revoked":
            subject.transport.revoke([bad])
        subject.clock.advance(LEASE)
        subject.exchange(limit=0)
        expected = S.QUEUED if ending == "revoked" else S.REVOKED
        equal(subject.state(other), expected, f"state of the other one, {ending}")


# -- spawning --------------------------------------------------------------------------------------


@case("workflows")
def spawned_jobs_are_awaited_too(subject: Subject) -> None:
    """By whoever waits for the one that spawned them, with all that they give."""
    first, second = subject.add_many(2)
    last = subject.add(after=[first, second])
    more = [subject.job() for _ in range(2)]
    ids = [sealed.envelope.id for sealed in more]
    ack = Ack(subject.take(first), text("first"), spawn=more)
    equal(subject.settle(ack, ack), [Settled.DONE, Settled.REPEATED], "the ack, twice")
    equal(subject.record(last).pending, 3, "pending")
    _succeed(subject, second, "second")
    for number, job_id in enumerate(ids):
        equal(subject.state(last), S.WAITING, "state while spawned ones run")
        _succeed(subject, job_id, str(number))
    expected = {first: "first", second: "second", ids[0]: "0", ids[1]: "1"}
    inputs = {job_id: text(value) for job_id, value in expected.items()}
    equal(subject.take(last).inputs, inputs, "inputs")


@case("workflows")
def spawned_job_may_spawn(subject: Subject) -> None:
    """Its jobs are awaited by the same ones."""
    first = subject.add()
    last = subject.add(after=[first])
    for _ in range(3):
        more = subject.job()
        subject.done(Ack(subject.take(first), spawn=[more]))
        first = more.envelope.id
    equal(subject.state(last), S.WAITING, "state")
    _succeed(subject, first)
    equal(subject.state(last), S.QUEUED, "state after the last one")


@case("workflows")
def refused_ack_spawns_nothing(subject: Subject) -> None:
    """Nor does it change who waits for whom."""
    first = subject.add()
    last = subject.add(after=[first])
    late = subject.take(first, lease=5.0)
    subject.clock.advance(5)
    subject.take(first)
    more = subject.job()
    equal(subject.settle(Ack(late, spawn=[more])), [Settled.LEASE_LOST], "the late ack")
    equal(subject.state(more.envelope.id), S.UNKNOWN, "state of what it would spawn")
    equal(subject.record(last).pending, 1, "pending")


@case("workflows")
def spawned_job_that_is_skipped_at_once_is_heard_of(subject: Subject) -> None:
    """Whoever waits for the one that spawned it does not wait for ever."""
    dead = subject.add()
    _die(subject, dead)
    first = subject.add()
    last = subject.add(after=[first])
    finally_ = subject.add(after=[first], run_if="finished")
    subject.done(Ack(subject.take(first), spawn=[subject.job(after=[dead])]))
    equal(_states(subject, last, finally_), [S.SKIPPED, S.QUEUED], "states")


@case("workflows")
def exchange_with_jobs_that_cannot_be_stored_changes_nothing(subject: Subject) -> None:
    """None of its settlements counts; each of them may be made again."""
    first, second = subject.add_many(2)
    held = subject.hold([first, second])
    bad = subject.job(after=["01UNKNOWN"])
    for settlement in (Ack(held[1], spawn=[bad]), Delegate(held[1], [bad], bad.envelope.id)):
        with raises(UnknownDependency, "a settlement with a job that waits for an unknown one"):
            subject.settle(Ack(held[0]), settlement)
        equal(_states(subject, first, second), [S.RUNNING] * 2, "states")
    equal(subject.settle(Ack(held[0]), Ack(held[1])), [Settled.DONE] * 2, "settled without")


# -- delegating ------------------------------------------------------------------------------------


def _delegate(subject: Subject, job_id: str, count: int = 1) -> list[str]:
    """A job hands over to a chain of others; their ids."""
    chain = [subject.job()]
    for _ in range(count - 1):
        chain.append(subject.job(after=[chain[-1].envelope.id]))
    ids = [sealed.envelope.id for sealed in chain]
    subject.done(Delegate(subject.take(job_id), chain, ids[-1]))
    return ids


@case("workflows")
def delegate_gives_the_result_of_another(subject: Subject) -> None:
    """It waits without a lease, and does not run again."""
    first = subject.add(expires_at=subject.clock.now() + 5)
    behind = subject.add(after=[first])
    ids = _delegate(subject, first, 2)
    subject.clock.advance(10 * LEASE)
    subject.transport.maintain()
    record = subject.expect(first, S.WAITING, "after it delegated")
    equal((record.delegated_to, record.pending, record.lease_until), (ids[1], 1, None), "record")
    _succeed(subject, ids[0], "on the way")
    _succeed(subject, ids[1], "the result")
    equal(
        subject.expect(first, S.SUCCEEDED, "after the other").result, text("the result"), "result"
    )
    equal(subject.take(behind).inputs, {first: text("the result")}, "inputs of who waited")


@case("workflows")
def delegates_may_delegate(subject: Subject) -> None:
    """However deep, the end of the last one ends all of them."""
    first = subject.add(result_ttl=0.0)
    behind = subject.add(after=[first])
    ids = [first]
    for _ in range(50):
        ids += _delegate(subject, ids[-1])
    _succeed(subject, ids[-1], "deep")
    equal(set(_states(subject, *ids[1:])), {S.SUCCEEDED}, "states")
    equal(subject.state(first), S.UNKNOWN, "state of the one that keeps nothing")
    equal(subject.take(behind).inputs, {first: text("deep")}, "inputs of who waited")


@case("workflows")
def delegate_that_spawns_is_a_member_like_any_other(subject: Subject) -> None:
    """Whoever waits for the job that delegated waits for what the other one spawned; that job
    itself has the other one's result, and does not."""
    first = subject.add()
    behind = subject.add(after=[first])
    (second,) = _delegate(subject, first)
    (third,) = _delegate(subject, second)
    more = subject.job()
    subject.done(Ack(subject.take(third), text("third"), spawn=[more]))
    equal(subject.expect(first, S.SUCCEEDED, "at once").result, text("third"), "result")
    equal(subject.expect(behind, S.WAITING, "for what was spawned").pending, 1, "pending")
    member = more.envelope.id
    _succeed(subject, member, "member")
    expected = {first: text("third"), member: text("member")}
    equal(subject.take(behind).inputs, expected, "inputs of who waited")


@case("workflows")
def delegate_of_a_lost_job_is_skipped(subject: Subject) -> None:
    """And waits again when that is replayed."""
    first = subject.add()
    behind = subject.add(after=[first])
    (to,) = _delegate(subject, first)
    _die(subject, to)
    equal(_states(subject, first, behind), [S.SKIPPED] * 2, "states after the loss")
    subject.transport.replay([to], {})
    equal(_states(subject, first, behind), [S.WAITING] * 2, "states after the replay")
    _succeed(subject, to)
    equal(_states(subject, first, behind), [S.SUCCEEDED, S.QUEUED], "states after the success")


@case("workflows")
def delegate_of_a_job_that_is_not_there_is_skipped(subject: Subject) -> None:
    """At once, with everybody who waits for it: nothing is left that could give its result."""
    first = subject.add()
    behind = subject.add(after=[first])
    finally_ = subject.add(after=[first], run_if="finished")
    subject.done(Delegate(subject.take(first), [], "01UNKNOWN"))
    equal(_states(subject, first, behind, finally_), [S.SKIPPED, S.SKIPPED, S.QUEUED], "states")
    equal(subject.expect(first, S.SKIPPED, "delegated").delegated_to, "01UNKNOWN", "delegated to")


@case("workflows")
def delegating_twice_is_delegating_once(subject: Subject) -> None:
    """A repeated settlement changes nothing; a late one is refused."""
    first = subject.add()
    delivery, other = subject.take(first), subject.job()
    delegate = Delegate(delivery, [other], other.envelope.id)
    equal(subject.settle(delegate, delegate), [Settled.DONE, Settled.REPEATED], "delegated")
    equal(subject.settle(Ack(delivery)), [Settled.LEASE_LOST], "an ack after it")
    _succeed(subject, other.envelope.id)
    subject.idle()


@case("workflows")
def delegate_to_what_has_succeeded_is_done(subject: Subject) -> None:
    """The replacement may be there already, from a run whose settlement was lost."""
    first = subject.add(queue="r")
    other = subject.job()
    subject.transport.enqueue([other])
    _succeed(subject, other.envelope.id, "early")
    (delivery,) = subject.reserve(queues=["r"])
    subject.done(Delegate(delivery, [other], other.envelope.id))
    equal(subject.expect(first, S.SUCCEEDED, "at once").result, text("early"), "result")


@case("workflows")
def revoked_job_does_not_delegate(subject: Subject) -> None:
    """Asked to stop, it stops; revoked while it waits, it ends and the others go on."""
    first, second = subject.add_many(2)
    (to,) = _delegate(subject, first)
    held, other = subject.take(second), subject.job()
    subject.transport.revoke([first, second])
    subject.done(Delegate(held, [other], other.envelope.id))
    equal(_states(subject, first, second, to), [S.REVOKED, S.REVOKED, S.QUEUED], "states")
    equal(subject.state(other.envelope.id), S.UNKNOWN, "state of what was not stored")
    _succeed(subject, to)
    equal(subject.state(first), S.REVOKED, "state after the other one's success")


@case("workflows", "limits")
def delegate_makes_room(subject: Subject) -> None:
    """While it waits it does not count for its limits."""
    limits = (Limit("concurrency", "k", 1),)
    first, second = subject.add_many(2, limits=limits)
    (to,) = _delegate(subject, first)
    equal({d.job_id for d in subject.reserve(5)}, {second, to}, "reserved")


@case("workflows")
def exchange_names_who_sees_to_the_end(subject: Subject) -> None:
    """What runs after a loss: of one that failed, of those that it took along, and through jobs
    that have delegated."""
    failing, other = subject.add_many(2, workflow="w", fail_fast=True)
    handler = subject.add(after=[failing], run_if="failed")
    finally_ = subject.add(after=[failing, other], run_if="finished")
    answer = subject.transport.exchange([DeadLetter(subject.take(failing), "error", FAILURE)])
    equal({each.job_id for each in answer.readied}, {handler, finally_}, "after the failure")
    delegating = subject.add(queue="r")
    behind = subject.add(after=[delegating], queue="r")
    work = subject.job(queue="s")
    delivery = subject.take(delegating, queues=["r"])
    subject.done(Delegate(delivery, [work], work.envelope.id))
    answer = subject.transport.exchange([Ack(subject.take(work.envelope.id, queues=["s"]))])
    equal([each.job_id for each in answer.readied], [behind], "through a delegation")
