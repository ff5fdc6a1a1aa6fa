"""Reservations that name their jobs: those and no others, if they can be had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from taskmq.limits import Fair, Limit
from taskmq.records import Dropped
from taskmq.states import JobState
from taskmq.transport import Ack, Delivery, Release, Reservation, Settled

from .case import case
from .checks import equal
from .subject import LEASE, Subject, text
from .threads import together


def _named(subject: Subject, jobs: Sequence[str], **how: Any) -> list[str]:
    return [delivery.job_id for delivery in subject.reserve(**{"limit": 10, "jobs": jobs, **how})]


@case()
def named_jobs_are_reserved_and_no_others(subject: Subject) -> None:
    """Those that are named come in the order of the names, whatever is more urgent."""
    first, second, third = subject.add_many(3)
    urgent = subject.add(priority=9)
    equal(_named(subject, [third, first]), [third, first], "reserved")
    subject.expect(urgent, JobState.QUEUED, "that was not named")
    equal(subject.reserve(limit=10, jobs=[second])[0].deliveries, 1, "counted deliveries")
    subject.take(urgent)


@case()
def naming_no_job_reserves_none(subject: Subject) -> None:
    """Nor does a name that the store does not know; a job that is named twice comes once."""
    job_id = subject.add()
    equal(_named(subject, []), [], "reserved without a name")
    equal(_named(subject, ["01UNKNOWN"]), [], "reserved of an unknown name")
    equal(_named(subject, [job_id, job_id]), [job_id], "reserved of the same name twice")


@case()
def no_more_named_jobs_are_reserved_than_the_limit(subject: Subject) -> None:
    """The first of them; ``limit`` 0 only looks."""
    ids = subject.add_many(4)
    equal(_named(subject, ids, limit=0), [], "reserved with a limit of 0")
    equal(_named(subject, ids[::-1], limit=2), ids[:1:-1], "reserved")


@case()
def named_job_that_cannot_be_had_is_left_alone(subject: Subject) -> None:
    """One that is held, delayed, finished, in another queue, or of a paused queue."""
    held, done = subject.add_many(2)
    subject.take(held)
    subject.done(Ack(subject.reserve(jobs=[done])[0]))
    delayed = subject.add(eta=subject.clock.now() + 5)
    elsewhere = subject.add(queue="r")
    every = [held, done, delayed, elsewhere]
    equal(_named(subject, every), [], "reserved of what cannot be had")
    equal(_named(subject, [elsewhere], queues=["q", "r"]), [elsewhere], "of the other queue")
    subject.clock.advance(5)
    subject.transport.pause("q", by="ann")
    equal(_named(subject, every), [], "reserved of a paused queue")
    subject.transport.resume("q")
    equal(_named(subject, every), [delayed], "reserved when its time had come")


@case("dependencies")
def named_job_waits_for_what_it_depends_on(subject: Subject) -> None:
    """And gets what that handed over."""
    first = subject.add()
    second = subject.add(after=[first])
    (delivery,) = subject.reserve(limit=10, jobs=[second, first])
    equal(delivery.job_id, first, "reserved")
    subject.done(Ack(delivery, text("value")))
    (delivery,) = subject.reserve(limit=10, jobs=[second, first])
    equal(delivery.inputs, {first: text("value")}, "inputs")


@case()
def named_job_of_a_lost_worker_is_taken_back_first(subject: Subject) -> None:
    """Housekeeping is as always: ended leases, and what has expired."""
    lost = subject.add()
    late = subject.add(expires_at=subject.clock.now() + LEASE)
    subject.take(lost)
    subject.clock.advance(LEASE)
    answer = subject.exchange(limit=10, jobs=[late, lost])
    equal([(d.job_id, d.reclaims) for d in answer.deliveries], [(lost, 1)], "reserved")
    equal(list(answer.dropped), [Dropped(late, "demo.task", "q", "expired")], "dropped")


@case()
def quotas_hold_for_named_jobs(subject: Subject) -> None:
    """The others come all the same."""
    ids = subject.add_many(2)
    other = subject.add(queue="r")
    wanted = Reservation(
        queues={"q": 1, "r": 1},
        worker="w",
        lease=LEASE,
        limit=5,
        quotas={"q": 1},
        jobs=[*ids, other],
    )
    got = [delivery.job_id for delivery in subject.transport.exchange((), wanted).deliveries]
    equal(got, [ids[0], other], "reserved")


@case("limits")
def limits_hold_for_named_jobs(subject: Subject) -> None:
    """One that its limit does not let run is held; whoever is next in line follows."""
    limits = (Limit("concurrency", "shared", 1),)
    ids = subject.add_many(3, limits=limits)
    free = subject.add()
    first, other = subject.reserve(limit=10, jobs=[*ids, free])
    equal([first.job_id, other.job_id], [ids[0], free], "reserved")
    equal(_named(subject, ids), [], "reserved while one runs")
    subject.done(Ack(first))
    equal(_named(subject, ids), [ids[1]], "reserved after its end")


@case("fair_turns")
def named_jobs_do_not_wait_for_their_turn(subject: Subject) -> None:
    """The others keep theirs."""
    many = subject.add_many(3, fair=Fair("a"))
    few = subject.add(fair=Fair("b"))
    equal(_named(subject, [many[1]]), [many[1]], "reserved")
    equal(sorted(d.job_id for d in subject.reserve(3)), sorted([many[0], many[2], few]), "the rest")


@case()
def settling_comes_before_reserving_by_name(subject: Subject) -> None:
    """What is released in an exchange can be had in it."""
    job_id = subject.add()
    delivery = subject.take(job_id)
    answer = subject.exchange([Release(delivery)], jobs=[job_id])
    equal(answer.settled, [Settled.DONE], "settled")
    equal([(d.job_id, d.yields) for d in answer.deliveries], [(job_id, 1)], "reserved")


@case()
def named_job_has_one_holder(subject: Subject) -> None:
    """Several that ask for the same names at once get each job once between them."""
    ids = subject.add_many(40)
    handles = [subject.open() for _ in range(4)]
    got: list[Delivery] = []

    def ask(number: int) -> None:
        for start in range(0, 40, 5):
            names = ids[start : start + 5]
            wanted = Reservation(
                queues={"q": 1}, worker=f"w{number}", lease=LEASE, limit=5, jobs=names
            )
            got.extend(handles[number].reserve(wanted))

    together(ask, 4)
    equal(sorted(delivery.job_id for delivery in got), sorted(ids), "reserved by all")
