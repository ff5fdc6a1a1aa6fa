"""Housekeeping: anybody may do it, at any time, several at once."""

from __future__ import annotations

from taskmq.records import Dropped, JobFilter, MaintenanceReport
from taskmq.states import JobState
from taskmq.transport import Ack, DeadLetter, Defer, Expire, Release, Reservation, Revoke

from .case import case
from .checks import equal, holds
from .subject import FAILURE, LEASE, Subject, text
from .threads import together


@case()
def nothing_to_do_is_nothing_done(subject: Subject) -> None:
    """`maintain` leaves jobs alone that need nothing, and reports zeroes."""
    equal(subject.transport.maintain(), MaintenanceReport(), "the report on an empty store")
    subject.add()
    subject.add(eta=subject.clock.now() + 100)
    subject.take()
    before = subject.transport.find(JobFilter())
    equal(subject.transport.maintain(), MaintenanceReport(), "the report")
    equal(subject.transport.find(JobFilter()), before, "the jobs")


@case()
def maintain_takes_back_ended_leases_of_every_queue(subject: Subject) -> None:
    """Without any worker asking, lost jobs are queued again or become dead letters."""
    again = subject.add(queue="a")
    dead = subject.add(queue="b", max_deliveries=1)
    subject.reserve(limit=2, queues=["a", "b"], lease=10.0)
    equal(subject.transport.maintain().reclaimed, 0, "reclaimed, too early")
    subject.clock.advance(10)
    report = subject.transport.maintain()
    equal((report.reclaimed, report.dead), (2, 1), "reclaimed and dead")
    subject.expect(again, JobState.QUEUED, "after maintain")
    equal(subject.expect(dead, JobState.FAILED, "after maintain").dead_reason, "worker_lost", "why")
    equal(subject.transport.maintain(), MaintenanceReport(), "the second report")


@case()
def maintain_says_which_jobs_it_ended(subject: Subject) -> None:
    """Expired, lost too often, stopped and lost, parked for too long: each job once, by whoever
    ended it."""
    now = subject.clock.now()
    lost, stopped, again = (
        subject.add("demo.lost", max_deliveries=1),
        subject.add("demo.stopped", "other"),
        subject.add(),
    )
    parked = subject.add("demo.parked")
    subject.done(Defer(subject.hold([lost, again, parked])[2], 5.0, "unknown_task", 10.0))
    subject.take(stopped, queues=["other"])
    subject.transport.revoke([stopped])
    expired = subject.add("demo.late", "third", expires_at=now + 10, result_ttl=0.0)
    subject.clock.advance(LEASE)
    expected = [
        Dropped(lost, "demo.lost", "q", "worker_lost"),
        Dropped(stopped, "demo.stopped", "other", "revoked"),
        Dropped(parked, "demo.parked", "q", "unknown_task"),
        Dropped(expired, "demo.late", "third", "expired"),
    ]
    told = sorted(subject.transport.maintain().dropped, key=lambda each: each.job_id)
    equal(told, sorted(expected, key=lambda each: each.job_id), "dropped")
    answer = subject.exchange(limit=10, queues=["q", "other", "third"])
    equal([delivery.job_id for delivery in answer.deliveries], [again], "reserved after that")
    equal(list(answer.dropped), [], "dropped by the exchange after that")
    equal(list(subject.transport.maintain().dropped), [], "dropped again")


@case()
def job_that_is_taken_back_and_expires_is_told_of_once(subject: Subject) -> None:
    """As expired, which is how it ended."""
    job_id = subject.add(expires_at=subject.clock.now() + 10)
    subject.take(job_id)
    subject.clock.advance(LEASE)
    expired = (Dropped(job_id, "demo.task", "q", "expired"),)
    equal(subject.transport.maintain().dropped, expired, "dropped")


@case()
def what_an_exchange_ended_is_not_told_again(subject: Subject) -> None:
    """A job that was asked to stop, and whose worker is lost, is told of as ``revoked``."""
    job_id = subject.add()
    subject.take(job_id)
    subject.transport.revoke([job_id])
    subject.clock.advance(LEASE)
    dropped = [Dropped(job_id, "demo.task", "q", "revoked")]
    equal(list(subject.exchange(limit=0).dropped), dropped, "dropped")
    equal(list(subject.transport.maintain().dropped), [], "dropped again")


@case()
def finished_jobs_are_kept_as_long_as_they_say(subject: Subject) -> None:
    """A finished job is readable until ``result_ttl`` after its end, then deleted."""
    for ttl in (0.5, 100.0):
        job_id = subject.add(result_ttl=ttl)
        subject.done(Ack(subject.take(), text("value")))
        end = subject.clock.now()
        subject.clock.set(end + ttl - 0.01)
        equal(subject.transport.maintain().purged, 0, "purged, too early")
        equal(subject.record(job_id).result, text("value"), "result just before the end")
        subject.clock.set(end + ttl)
        equal(subject.transport.maintain().purged, 1, "purged")
        equal(subject.state(job_id), JobState.UNKNOWN, "state")


@case()
def every_end_but_death_has_its_retention(subject: Subject) -> None:
    """Expired and revoked jobs are deleted like succeeded ones, dead letters are not."""
    ids = [subject.add(result_ttl=10.0) for _ in range(4)]
    done, expired, revoked, dead = subject.hold(ids)
    subject.settle(Ack(done), Expire(expired), Revoke(revoked), DeadLetter(dead, "error", FAILURE))
    subject.clock.advance(10)
    equal(subject.transport.maintain().purged, 3, "purged")
    states = [subject.state(job_id) for job_id in ids]
    equal(states, [JobState.UNKNOWN] * 3 + [JobState.FAILED], "states")


@case()
def limit_bounds_one_maintain(subject: Subject) -> None:
    """At most ``limit`` jobs of each kind at a time; the rest next time."""
    for number in range(7):
        subject.add(queue=f"late-{number % 2}", expires_at=subject.clock.now() + 10)
        subject.add(queue=f"lost-{number % 2}", max_deliveries=1)
    subject.reserve(limit=7, queues=["lost-0", "lost-1"], lease=10.0)
    subject.clock.advance(10)
    reports = [subject.transport.maintain(limit=3) for _ in range(4)]
    equal([report.expired for report in reports], [3, 3, 1, 0], "expired")
    equal([report.reclaimed for report in reports], [3, 3, 1, 0], "reclaimed")
    equal([report.dead for report in reports], [3, 3, 1, 0], "dead")


@case()
def forget_deletes_finished_jobs(subject: Subject) -> None:
    """`forget` deletes finished jobs at once, leaves others and dead letters, and counts."""
    done, dead, running, queued = subject.add_many(4)
    subject.done(Ack(subject.take(done), text("value")))
    subject.done(DeadLetter(subject.take(dead), "error", FAILURE))
    subject.take(running)
    gone = subject.add()
    subject.transport.revoke([gone])
    asked = [done, dead, running, queued, gone, "01UNKNOWN"]
    equal(subject.transport.forget(asked), 2, "forgotten")
    states = [subject.state(job_id) for job_id in asked]
    unknown, failed = JobState.UNKNOWN, JobState.FAILED
    expected = [unknown, failed, JobState.RUNNING, JobState.QUEUED, unknown, unknown]
    equal(states, expected, "states")
    equal(subject.transport.forget(asked), 0, "forgotten again")
    equal(subject.transport.forget([]), 0, "nothing to forget")


@case()
def purge_deletes_what_waits_in_a_queue(subject: Subject) -> None:
    """`purge` deletes ready, delayed and parked jobs of one queue; held and finished ones stay."""
    done, held, parked, ready = subject.add_many(4)
    delayed = subject.add(eta=subject.clock.now() + 50)
    other = subject.add(queue="other")
    subject.done(Ack(subject.take(done)))
    delivery = subject.take(held)
    subject.done(Defer(subject.take(parked), 50.0, "unknown_task", 500.0))
    equal(subject.transport.purge("q"), 3, "purged")
    for job_id in (parked, ready, delayed):
        equal(subject.state(job_id), JobState.UNKNOWN, "state of a purged job")
    subject.expect(other, JobState.QUEUED, "in another queue")
    subject.expect(done, JobState.SUCCEEDED, "after a purge")
    subject.done(Ack(delivery))
    equal(subject.transport.purge("q"), 0, "purged again")
    equal(subject.transport.purge("none"), 0, "purged in an empty queue")


@case("workflows")
def purge_leaves_what_it_makes_ready(subject: Subject) -> None:
    """A job of the queue that runs although it has lost what it waited for was not waiting in the
    queue before; that it is delayed makes no difference."""
    first, second = subject.add_many(2)
    ready = subject.add(after=[first], run_if="finished")
    delayed = subject.add(after=[second], run_if="failed", eta=subject.clock.now() + 5)
    equal(subject.transport.purge("q"), 2, "purged")
    (stats,) = subject.transport.stats(["q"])
    equal((stats.ready, stats.delayed), (1, 1), "ready and delayed afterwards")
    subject.take(ready)
    subject.clock.advance(5)
    subject.take(delayed)


@case("dependencies")
def purge_skips_what_waits_for_a_purged_job(subject: Subject) -> None:
    """A job that waits for dependencies is not purged; if one of them was, it is skipped."""
    first = subject.add(queue="first")
    second = subject.add(after=[first])
    third = subject.add(after=[second])
    equal(subject.transport.purge("q"), 0, "purged while they wait")
    equal(subject.transport.purge("first"), 1, "purged")
    subject.expect(second, JobState.SKIPPED, "after its dependency was purged")
    subject.expect(third, JobState.SKIPPED, "after its dependency was skipped")


@case()
def concurrent_maintenance_counts_each_job_once(subject: Subject) -> None:
    """Several that maintain at once take each lost and each expired job once between them."""
    ids = subject.add_many(100, max_deliveries=9)
    subject.reserve(limit=100, lease=10.0)
    for _ in range(100):
        subject.add(queue="late", expires_at=subject.clock.now() + 10)
    subject.clock.advance(10)
    handles = [subject.open() for _ in range(4)]
    reports: list[MaintenanceReport] = []
    together(lambda number: reports.append(handles[number].maintain()), 4)
    equal(sum(report.reclaimed for report in reports), 100, "reclaimed by all")
    equal(sum(report.expired for report in reports), 100, "expired by all")
    records = [subject.record(job_id) for job_id in ids]
    equal({record.reclaims for record in records}, {1}, "reclaims")


@case()
def maintenance_beside_workers_loses_nothing(subject: Subject) -> None:
    """Workers that reserve, give back and settle while others maintain: each job once."""
    ids = subject.add_many(200)
    handles = [subject.open() for _ in range(4)]
    done: list[str] = []

    def work(number: int) -> None:
        transport = handles[number]
        if number % 2:
            for _ in range(30):
                transport.maintain()
            return
        wanted = Reservation(queues={"q": 1}, worker=f"w{number}", lease=LEASE, limit=7)
        while held := transport.reserve(wanted):
            kept = held[: max(1, len(held) - 1)]
            given_back = held[len(kept) :]
            transport.settle([*(Ack(d) for d in kept), *(Release(d) for d in given_back)])
            done.extend(delivery.job_id for delivery in kept)

    together(work, 4)
    subject.transport.maintain()
    equal(len(subject.reserve(limit=10)), 0, "jobs left")
    holds(sorted(done) == sorted(ids), f"each of 200 jobs is done once, got {len(done)}")


@case()
def closing_twice_is_allowed(subject: Subject) -> None:
    """A second `close` does nothing."""
    subject.add()
    subject.transport.close()
    subject.transport.close()
