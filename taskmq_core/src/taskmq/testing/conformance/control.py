"""Control: a paused queue gives nothing out, whoever asks and whenever; all else goes on."""

from __future__ import annotations

from taskmq.limits import Limit
from taskmq.records import JobFilter, PausedQueue
from taskmq.states import JobState
from taskmq.transport import Ack, LeaseStatus, Reservation

from .case import case
from .checks import equal, holds
from .subject import LEASE, Subject

PLENTY = 10.0


@case()
def paused_queue_gives_nothing_out(subject: Subject) -> None:
    """Whoever asks; the other queues give what they have."""
    subject.add_many(3, priority=5)
    other = subject.add(queue="r")
    equal(subject.transport.pause("q", by="ann"), True, "paused")
    subject.idle()
    got = [delivery.job_id for delivery in subject.reserve(5, queues=["q", "r"])]
    equal(got, [other], "reserved")
    subject.transport = subject.open()
    subject.idle()


@case()
def paused_queue_takes_jobs(subject: Subject) -> None:
    """What is enqueued meanwhile waits, and is counted as ready."""
    subject.transport.pause("q", by="ann")
    subject.add_many(2)
    equal([stats.ready for stats in subject.transport.stats(["q"])], [2], "ready")
    subject.idle()


@case()
def delayed_jobs_of_a_paused_queue_wait(subject: Subject) -> None:
    """Their time comes, and nothing else happens; they are not due any more after a look."""
    subject.add(eta=subject.clock.now() + 5)
    subject.transport.pause("q", by="ann")
    subject.clock.advance(6)
    subject.idle()
    equal(subject.exchange(limit=1).next_due_at, None, "next_due_at")
    subject.transport.resume("q")
    equal(len(subject.reserve(5)), 1, "reserved after the pause")


@case("global_priority")
def paused_queue_leaves_nothing_waiting(subject: Subject) -> None:
    """``waiting_priority`` does not count what nobody may have."""
    subject.add(priority=5)
    subject.add(queue="r", priority=1)
    subject.transport.pause("q", by="ann")
    equal(subject.exchange(limit=0, queues=["q", "r"]).waiting_priority, 1, "waiting_priority")
    equal(subject.exchange(limit=0).waiting_priority, None, "waiting_priority of the paused queue")


@case()
def running_jobs_of_a_paused_queue_go_on(subject: Subject) -> None:
    """They can be extended and settled; a settlement with a reservation reserves nothing."""
    subject.add_many(2)
    delivery = subject.take()
    subject.transport.pause("q", by="ann")
    equal(subject.transport.extend([delivery], LEASE), [LeaseStatus.HELD], "extended")
    answer = subject.exchange([Ack(delivery)], limit=5)
    equal(list(answer.deliveries), [], "deliveries")
    subject.expect(delivery.job_id, JobState.SUCCEEDED, "after the ack")


@case()
def housekeeping_of_a_paused_queue_goes_on(subject: Subject) -> None:
    """Ended leases are taken back, and expired jobs end."""
    lost = subject.add()
    subject.take(lost)
    expired = subject.add(expires_at=subject.clock.now() + 5)
    subject.transport.pause("q", by="ann")
    subject.clock.advance(LEASE)
    dropped = [drop.job_id for drop in subject.exchange(limit=5).dropped]
    equal(dropped, [expired], "dropped")
    equal(subject.expect(lost, JobState.QUEUED, "after its lease").reclaims, 1, "reclaims")


@case()
def resumed_queue_goes_on_in_order(subject: Subject) -> None:
    """After the pause everything has the place that it had."""
    job_ids = subject.add_many(3)
    subject.transport.pause("q", by="ann")
    subject.idle()
    equal(subject.transport.resume("q"), True, "resumed")
    equal(subject.transport.resume("q"), False, "resumed again")
    subject.hold(job_ids)


@case()
def pause_says_who_when_and_why(subject: Subject) -> None:
    """The list is by name; a pause of a paused queue changes nothing."""
    transport, now = subject.transport, subject.clock.now()
    equal(transport.paused(), [], "paused before")
    transport.pause("r", by="bob@host")
    transport.pause("q", by="ann@host", reason="the provider is down")
    subject.clock.advance(5)
    equal(transport.pause("q", by="carl@host", reason="no idea"), False, "paused again")
    expected = [
        PausedQueue(queue="q", by="ann@host", paused_at=now, reason="the provider is down"),
        PausedQueue(queue="r", by="bob@host", paused_at=now),
    ]
    equal(subject.open().paused(), expected, "paused")
    transport.resume("q")
    equal([pause.queue for pause in transport.paused()], ["r"], "paused after a resume")


@case("durable")
def pause_outlives_every_process(subject: Subject) -> None:
    """It holds for whoever opens the store later."""
    subject.add()
    subject.transport.pause("q", by="ann", reason="tidying up")
    subject.reopen()
    subject.idle()
    equal([pause.reason for pause in subject.transport.paused()], ["tidying up"], "paused")


@case("wakeups")
def resume_wakes_who_listens(subject: Subject) -> None:
    """Who found nothing because of the pause hears of its end."""
    subject.add()
    subject.transport.pause("q", by="ann")
    listener = subject.transport.listen(["q"])
    try:
        listener.clear()
        subject.idle()
        subject.open().resume("q")
        holds(listener.wait(PLENTY), "a wake-up by the resume")
    finally:
        listener.close()
    equal(len(subject.reserve(5)), 1, "reserved")


@case()
def held_jobs_do_not_wait_for_a_paused_queue(subject: Subject) -> None:
    """A limit that queues share lets those of the open one pass."""
    limits = (Limit("concurrency", "shared", 1),)
    subject.add_many(2, limits=limits)
    first, second = subject.add_many(2, queue="r", limits=limits)
    subject.transport.pause("q", by="ann")
    for job_id in (first, second):
        wanted = Reservation(queues={"q": 1, "r": 1}, worker="w", lease=LEASE, limit=5)
        (delivery,) = subject.transport.exchange((), wanted).deliveries
        equal(delivery.job_id, job_id, "reserved")
        subject.done(Ack(delivery))


@case()
def jobs_are_found_by_key_workflow_and_whether_they_stop(subject: Subject) -> None:
    """All that is given has to match."""
    keyed = subject.add(key="k")
    node = subject.add(workflow="w")
    subject.take(keyed)
    subject.transport.revoke([keyed])

    def found(**fields: object) -> list[str]:
        return [job.id for job in subject.transport.find(JobFilter(**fields))]  # type: ignore[arg-type]  # as each case says

    equal(found(key="k"), [keyed], "found by key")
    equal(found(workflow="w"), [node], "found by workflow")
    equal(found(key="k", workflow="w"), [], "found by both")
    equal(found(stopping=True), [keyed], "found that stop")
    equal(found(stopping=False), [node], "found that do not")


@case()
def jobs_are_found_by_whether_somebody_revoked_them(subject: Subject) -> None:
    """Also those that still run, or that ended in another way after all."""
    running, done, queued, other = subject.add_many(4)
    deliveries = subject.hold([running, done])
    subject.transport.revoke([queued, running, done], by="ann")
    subject.done(Ack(deliveries[1]))
    found = subject.transport.find(JobFilter(revoked=True))
    equal([job.id for job in found], [running, done, queued], "found")
    equal([job.id for job in subject.transport.find(JobFilter(revoked=False))], [other], "others")
