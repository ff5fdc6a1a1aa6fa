"""The table of transitions, tried out: every event in every state leads where it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from taskmq.states import Event, JobState, next_state
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
    Settlement,
)

from .case import case
from .checks import equal
from .subject import FAILURE, LEASE, Subject

LIFE = 10 * LEASE
UNREACHABLE = {(JobState.QUEUED, Event.DEAD), (JobState.RETRYING, Event.DEAD)}
"""What becomes of parked jobs is a facet of its own."""
ELSEWHERE = {Event.DELEGATE, Event.FORWARD}
"""So is delegation."""


@dataclass(frozen=True)
class Specimen:
    """A job in some state, alone in its queue, with what is needed to do things to it."""

    job_id: str
    queue: str
    delivery: Delivery | None = None
    dependency: str | None = None


ENDINGS: dict[JobState, Callable[[Delivery], Settlement]] = {
    JobState.RETRYING: lambda delivery: RetryLater(delivery, 0.0, FAILURE),
    JobState.SUCCEEDED: Ack,
    JobState.FAILED: lambda delivery: DeadLetter(delivery, "error", FAILURE),
    JobState.EXPIRED: Expire,
    JobState.REVOKED: Revoke,
}
SETTLEMENTS: dict[Event, Callable[[Delivery], Settlement]] = {
    Event.ACK: Ack,
    Event.RETRY: lambda delivery: RetryLater(delivery, 0.0, FAILURE),
    Event.NACK: Nack,
    Event.DEFER: lambda delivery: Defer(delivery, 0.0),
    Event.RELEASE: Release,
    Event.DEAD: lambda delivery: DeadLetter(delivery, "error", FAILURE),
    Event.EXPIRE: Expire,
    Event.REVOKE: Revoke,
}


def _specimen(subject: Subject, state: JobState, queue: str) -> Specimen:
    expires_at = subject.clock.now() + LIFE
    if state in (JobState.WAITING, JobState.SKIPPED):
        dependency = subject.add(queue=f"before {queue}")
        job_id = subject.add(queue=queue, expires_at=expires_at, after=[dependency])
        if state is JobState.SKIPPED:
            held = subject.take(dependency, queues=[f"before {queue}"])
            subject.done(DeadLetter(held, "error", FAILURE))
        return Specimen(job_id, queue, dependency=dependency)
    job_id = subject.add(queue=queue, expires_at=expires_at)
    if state is JobState.QUEUED:
        return Specimen(job_id, queue)
    delivery = subject.take(job_id, queues=[queue])
    if state in ENDINGS:
        subject.done(ENDINGS[state](delivery))
    return Specimen(job_id, queue, delivery)


def _happen(subject: Subject, event: Event, to: Specimen) -> None:
    """Do what brings an event about, as far as anybody can in the state that the job is in."""
    transport = subject.transport
    if event is Event.RESERVE:
        subject.reserve(queues=[to.queue])
    elif event is Event.REPLAY:
        transport.replay([to.job_id], {})
    elif event is Event.REVOKE:
        transport.revoke([to.job_id])
    elif event is Event.DEPENDENCY_FAILED and to.dependency:
        transport.revoke([to.dependency])
    elif event is Event.DEPENDENCY_REPLAYED and to.dependency:
        transport.replay([to.dependency], {})
    elif event is Event.DEPENDENCIES_MET and to.dependency:
        held = subject.reserve(queues=[f"before {to.queue}"])
        subject.settle(*(Ack(delivery) for delivery in held))
    if event in SETTLEMENTS and to.delivery is not None:
        subject.settle(SETTLEMENTS[event](to.delivery))
    if event in (Event.RECLAIM, Event.EXPIRE):
        subject.clock.advance(LEASE if event is Event.RECLAIM else LIFE)
        transport.maintain()


@case("dependencies")
def every_event_leads_where_the_table_says(subject: Subject) -> None:
    """What the table does not name has no effect; what it names leads to that state."""
    for state in JobState:
        for event in Event:
            if state is JobState.UNKNOWN or (state, event) in UNREACHABLE or event in ELSEWHERE:
                continue
            specimen = _specimen(subject, state, f"{state} {event.value}")
            equal(subject.state(specimen.job_id), state, "state of the specimen")
            _happen(subject, event, specimen)
            expected = next_state(state, event) or state
            equal(subject.state(specimen.job_id), expected, f"state after {event.value} in {state}")
