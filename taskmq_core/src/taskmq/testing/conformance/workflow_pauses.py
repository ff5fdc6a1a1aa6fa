"""Pausing workflows: nothing more of one is begun, whatever it becomes; all else goes on."""

from __future__ import annotations

import threading
from typing import Any

from taskmq.limits import Fair, Limit
from taskmq.records import PausedWorkflow
from taskmq.states import JobState
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    Delegate,
    Delivery,
    LeaseStatus,
    Release,
    Reservation,
    RetryLater,
)

from .case import case
from .checks import equal, holds
from .subject import FAILURE, LEASE, Subject, text
from .threads import together

S = JobState
PLENTY = 10.0


def _pause(subject: Subject, workflow: str = "w") -> None:
    equal(subject.transport.pause_workflow(workflow, by="ann"), True, f"{workflow} is paused")


def _resume(subject: Subject, workflow: str = "w") -> None:
    equal(subject.transport.resume_workflow(workflow), True, f"{workflow} goes on")


def _reserved(subject: Subject, limit: int = 50, **how: Any) -> list[str]:
    return [delivery.job_id for delivery in subject.reserve(limit, **how)]


@case("workflow_pauses")
def paused_workflow_gives_nothing_out(subject: Subject) -> None:
    """Whoever asks; jobs of other workflows and of none pass it, in their order."""
    subject.add_many(3, workflow="w", priority=5)
    others = [subject.add(workflow="v"), subject.add()]
    _pause(subject)
    more = [subject.add(workflow="v"), subject.add()]
    subject.add(workflow="w")
    if subject.transport.capabilities.fifo:
        equal(_reserved(subject), others + more, "reserved")
    else:
        equal(sorted(_reserved(subject)), sorted(others + more), "reserved")
    subject.transport = subject.open()
    subject.idle()


@case("workflow_pauses", "weighted_turns")
def paused_workflow_takes_no_turn_of_a_queue(subject: Subject) -> None:
    """In no queue, of no priority, however many of its jobs stand first."""
    subject.add_many(300, workflow="w", queue="q")
    subject.add_many(300, workflow="w", queue="r", priority=3)
    wanted = [subject.add(queue="r"), *subject.add_many(2, queue="q")]
    _pause(subject)
    equal(sorted(_reserved(subject, queues=["q", "r"])), sorted(wanted), "reserved")
    answer = subject.exchange(limit=1, queues=["q", "r"])
    equal((list(answer.deliveries), answer.waiting_priority), ([], None), "what is left to have")


@case("workflow_pauses")
def named_jobs_of_a_paused_workflow_are_not_had(subject: Subject) -> None:
    """Not by their names either."""
    first, second, other = subject.add(workflow="w"), subject.add(workflow="w"), subject.add()
    _pause(subject)
    named = [second, other, first]
    equal(_reserved(subject, jobs=named), [other], "reserved by name")
    _resume(subject)
    equal(sorted(_reserved(subject, jobs=named)), sorted([first, second]), "reserved after that")


@case("workflow_pauses")
def what_runs_of_a_paused_workflow_goes_on(subject: Subject) -> None:
    """It can be extended and settled; an exchange that settles it reserves nothing of it."""
    first, _ = subject.add_many(2, workflow="w")
    delivery = subject.take(first)
    _pause(subject)
    equal(subject.transport.extend([delivery], LEASE), [LeaseStatus.HELD], "extended")
    equal(list(subject.exchange([Ack(delivery)], limit=5).deliveries), [], "deliveries")
    subject.expect(first, S.SUCCEEDED, "after the ack")


@case("workflow_pauses", "dependencies")
def dependents_of_a_paused_workflow_wait(subject: Subject) -> None:
    """They become ready, have what was handed to them, and are not reserved until it goes on."""
    first = subject.add(workflow="w")
    second = subject.add(workflow="w", after=[first])
    delivery = subject.take(first)
    _pause(subject)
    answer = subject.exchange([Ack(delivery, text("value"))], limit=5)
    equal(list(answer.deliveries), [], "deliveries")
    subject.expect(second, S.QUEUED, "when the first has succeeded")
    _resume(subject)
    equal(subject.take(second).inputs, {first: text("value")}, "inputs")


@case("workflow_pauses", "workflows")
def what_a_paused_workflow_grows_waits(subject: Subject) -> None:
    """Jobs that a running one spawns, and those that it delegates to."""
    spawner, delegator = subject.add_many(2, workflow="w")
    spawning, delegating = subject.hold([spawner, delegator])
    _pause(subject)
    new = [subject.job(workflow="w") for _ in range(2)]
    ids = [sealed.envelope.id for sealed in new]
    subject.done(Ack(spawning, text("1"), [new[0]]))
    subject.done(Delegate(delegating, [new[1]], ids[1]))
    subject.idle()
    _resume(subject)
    subject.settle(*(Ack(delivery, text("2")) for delivery in subject.hold(ids)))
    subject.expect(delegator, S.SUCCEEDED, "once the other one has given its result")


@case("workflow_pauses")
def no_way_back_into_the_queue_passes_a_pause(subject: Subject) -> None:
    """A retry, a deferral, a release, an ended lease, a replay, an instant that comes."""
    ids = subject.add_many(5, workflow="w", max_deliveries=9)
    retried, deferred, released, lost, dead = subject.hold(ids)
    delayed = subject.add(workflow="w", eta=subject.clock.now() + 5)
    _pause(subject)
    subject.done(RetryLater(retried, 1.0, FAILURE))
    subject.done(Defer(deferred, 2.0))
    subject.done(Release(released))
    subject.done(DeadLetter(dead, "error", FAILURE))
    subject.transport.replay([dead.job_id], {})
    subject.idle()
    subject.clock.advance(LEASE)
    subject.idle()
    equal(subject.exchange(limit=1).next_due_at, None, "next_due_at")
    states = [subject.state(job_id) for job_id in (*ids, delayed)]
    equal(states, [S.RETRYING, *[S.QUEUED] * 5], "states")
    equal(subject.record(lost.job_id).reclaims, 1, "reclaims of the one whose lease ended")
    _resume(subject)
    equal(sorted(_reserved(subject)), sorted([*ids, delayed]), "reserved when it goes on")


@case("workflow_pauses", "fifo", "global_priority")
def resumed_workflow_goes_on_in_order(subject: Subject) -> None:
    """Everything has the place that it had, among all others too, whether a look came across it
    or not; a second end of the pause is none."""
    low = subject.add_many(2, workflow="w")
    between = subject.add()
    last = subject.add(workflow="w")
    _pause(subject)
    (delivery,) = subject.hold([between])
    high = subject.add(workflow="w", priority=4)
    subject.done(Release(delivery))
    equal(_reserved(subject, limit=1), [between], "reserved during the pause")
    subject.clock.advance(LEASE)
    unseen = subject.add(workflow="w")
    _resume(subject)
    equal(subject.transport.resume_workflow("w"), False, "resumed again")
    equal(_reserved(subject), [high, *low, between, last, unseen], "reserved after the pause")


@case("workflow_pauses")
def workflows_are_paused_and_resumed_apart(subject: Subject) -> None:
    """Each waits for its own end of a pause, and may be paused again."""
    first, second = subject.add(workflow="v"), subject.add(workflow="w")
    _pause(subject, "v")
    _pause(subject, "w")
    subject.idle()
    _resume(subject, "w")
    subject.done(Release(subject.take(second)))
    _pause(subject, "w")
    subject.idle()
    _resume(subject, "v")
    equal(_reserved(subject), [first], "reserved")


@case("workflow_pauses")
def workflow_pause_says_who_when_and_why(subject: Subject) -> None:
    """The list is by id; a second pause changes nothing, nor does one of a workflow of which the
    store has no job."""
    transport, now = subject.transport, subject.clock.now()
    for workflow in ("w", "v"):
        subject.add(workflow=workflow)
    equal(transport.paused_workflows(), [], "paused before")
    equal(transport.pause_workflow("unknown", by="ann"), False, "an unknown one is paused")
    transport.pause_workflow("w", by="bob@host")
    transport.pause_workflow("v", by="ann@host", reason="bad input")
    subject.clock.advance(5)
    equal(transport.pause_workflow("v", by="carl", reason="no idea"), False, "paused again")
    expected = [
        PausedWorkflow(workflow="v", by="ann@host", paused_at=now, reason="bad input"),
        PausedWorkflow(workflow="w", by="bob@host", paused_at=now),
    ]
    equal(subject.open().paused_workflows(), expected, "paused")
    _resume(subject, "v")
    equal([each.workflow for each in transport.paused_workflows()], ["w"], "paused after that")


@case("workflow_pauses", "durable")
def workflow_pause_outlives_every_process(subject: Subject) -> None:
    """So does what it holds."""
    job_id = subject.add(workflow="w")
    _pause(subject)
    subject.idle()
    subject.reopen()
    subject.idle()
    _resume(subject)
    subject.reopen()
    subject.take(job_id)


@case("workflow_pauses", "wakeups")
def resume_of_a_workflow_wakes_who_listens(subject: Subject) -> None:
    """Who found nothing because of the pause hears of its end."""
    subject.add(workflow="w")
    _pause(subject)
    listener = subject.transport.listen(["q"])
    try:
        subject.idle()
        listener.clear()
        subject.idle()
        subject.open().resume_workflow("w")
        holds(listener.wait(PLENTY), "a wake-up by the resume")
    finally:
        listener.close()
    equal(len(subject.reserve(5)), 1, "reserved")


@case("workflow_pauses")
def what_a_pause_holds_is_counted_and_found(subject: Subject) -> None:
    """As ready or held, and in its state; no limit is named."""
    job_id = subject.add(workflow="w")
    _pause(subject)
    subject.idle()
    (stats,) = subject.transport.stats(["q"])
    equal(stats.ready + stats.held, 1, "ready or held")
    record = subject.expect(job_id, S.QUEUED, "during the pause")
    equal((record.held, record.workflow), (None, "w"), "held, workflow")


@case("workflow_pauses")
def what_a_pause_holds_can_be_revoked(subject: Subject) -> None:
    """Expires, too, and is purged; it does not come back with the end of the pause."""
    revoked = subject.add(workflow="w")
    expired = subject.add(workflow="w", expires_at=subject.clock.now() + 5)
    key = subject.add(workflow="w", key="k")
    _pause(subject)
    subject.idle()
    equal(subject.transport.revoke([revoked]), [True], "revoked")
    subject.clock.advance(5)
    dropped = [drop.job_id for drop in subject.exchange(limit=5).dropped]
    equal(dropped, [expired], "dropped")
    equal(subject.transport.purge("q"), 1, "purged")
    equal(subject.state(key), S.UNKNOWN, "state of the purged one")
    holds(subject.add(key="k") != key, "the key is free")
    _resume(subject)
    equal(len(_reserved(subject)), 1, "reserved after the pause")
    states = [subject.state(job_id) for job_id in (revoked, expired)]
    equal(states, [S.REVOKED, S.EXPIRED], "states")


@case("workflow_pauses", "workflows")
def paused_workflow_fails_fast(subject: Subject) -> None:
    """What is held is revoked with the rest."""
    bad, ready = (subject.add(workflow="w", fail_fast=True) for _ in range(2))
    delivery = subject.take(bad)
    _pause(subject)
    subject.idle()
    subject.done(DeadLetter(delivery, "error", FAILURE))
    equal(subject.state(ready), S.REVOKED, "state of the other one")
    _resume(subject)
    subject.idle()


@case("workflow_pauses", "limits")
def paused_workflow_takes_no_room_of_a_limit(subject: Subject) -> None:
    """Others behind it run meanwhile; after the pause it keeps to it as before."""
    limits = (Limit("concurrency", "shared", 1),)
    stopped = subject.add_many(3, workflow="w", limits=limits)
    others = subject.add_many(2, limits=limits)
    _pause(subject)
    for _ in others:
        (delivery,) = subject.reserve(5)
        holds(delivery.job_id in others, "one of the others is reserved")
        subject.done(Ack(delivery))
    subject.idle()
    _resume(subject)
    done = []
    for _ in stopped:
        (delivery,) = subject.reserve(5)
        done.append(delivery.job_id)
        subject.done(Ack(delivery))
    equal(sorted(done), sorted(stopped), "reserved after the pause, one at a time")


@case("workflow_pauses", "limits")
def paused_workflow_uses_up_no_rate(subject: Subject) -> None:
    """What it does not start costs nothing."""
    limits = (Limit("rate", "shared", 1, per=10.0),)
    stopped = subject.add(workflow="w", limits=limits)
    other = subject.add(limits=limits)
    _pause(subject)
    equal(_reserved(subject), [other], "reserved during the pause")
    _resume(subject)
    subject.idle()
    subject.clock.advance(10)
    equal(_reserved(subject), [stopped], "reserved when the limit lets it")


@case("workflow_pauses", "fair_turns", "fifo")
def paused_workflow_keeps_its_turns(subject: Subject) -> None:
    """The others take turns among themselves; afterwards it has the turn that it had."""
    ann = subject.add_many(2, workflow="w", fair=Fair("ann"))
    bob = subject.add_many(2, fair=Fair("bob"))
    _pause(subject)
    (delivery,) = subject.hold(bob[:1])
    subject.done(Ack(delivery))
    _resume(subject)
    equal(_reserved(subject), [ann[0], ann[1], bob[1]], "reserved after the pause")


@case("workflow_pauses")
def pause_is_forgotten_with_its_workflow(subject: Subject) -> None:
    """Once no job of it is stored, by maintenance at the latest."""
    job_id = subject.add(workflow="w")
    _pause(subject)
    subject.transport.revoke([job_id])
    equal(len(subject.transport.paused_workflows()), 1, "pauses while the job is kept")
    subject.transport.forget([job_id])
    subject.transport.maintain()
    equal(subject.transport.paused_workflows(), [], "pauses")
    subject.add(workflow="w")
    equal(len(_reserved(subject)), 1, "reserved of a new one of that name")


@case("workflow_pauses")
def nothing_is_reserved_once_the_pause_is_there(subject: Subject) -> None:
    """However many ask at the time: who asks after the pause has returned gets nothing of it, and
    when it is over all that is left is there, once."""
    ids = subject.add_many(300, workflow="w")
    handles = [subject.open() for _ in range(3)]
    begun, paused = threading.Barrier(4), threading.Event()
    before: list[list[Delivery]] = [[], [], []]
    late: list[str] = []

    def ask(number: int) -> None:
        wanted = Reservation(queues={"q": 1}, worker=f"w{number}", lease=LEASE, limit=2)
        begun.wait()
        for _ in range(20):
            is_late = paused.is_set()
            got = handles[number].reserve(wanted)
            before[number] += got
            late.extend(delivery.job_id for delivery in got if is_late)

    def work(number: int) -> None:
        if number < 3:
            ask(number)
            return
        begun.wait()
        _pause(subject)
        paused.set()

    together(work, 4)
    equal(late, [], "reserved after the pause")
    _resume(subject)
    got = [delivery.job_id for each in before for delivery in each]
    equal(sorted(got + _reserved(subject, limit=300)), sorted(ids), "reserved in all")
