"""The states of a job and the one table of transitions between them.

Stores mirror the table (SQL ``CHECK`` constraints, scripts) and the conformance suite checks them
against it, so that a transition exists in one place only. ``docs/states.md`` is the drawing.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["TERMINAL", "TRANSITIONS", "Event", "JobState", "next_state"]


class JobState(str, Enum):
    """Where a job is in its life. Compares equal to its name, so ``handle.state == "QUEUED"``."""

    WAITING = "WAITING"  # node of a workflow whose dependencies have not all succeeded
    QUEUED = "QUEUED"  # stored; reservable now or at its ``eta``
    RUNNING = "RUNNING"  # leased to a worker
    RETRYING = "RETRYING"  # failed, and visible again after its backoff
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"  # in the dead letters
    EXPIRED = "EXPIRED"  # ``expires`` passed before it started
    REVOKED = "REVOKED"
    SKIPPED = "SKIPPED"  # something it depended on did not succeed
    UNKNOWN = "UNKNOWN"  # answer for an id that the store does not know; never stored

    __str__ = str.__str__
    __format__ = str.__format__  # type: ignore[assignment]  # same text on 3.10-3.13


class Event(str, Enum):
    """What can happen to a stored job."""

    RESERVE = "reserve"
    ACK = "ack"
    RETRY = "retry"
    NACK = "nack"
    DEFER = "defer"
    RELEASE = "release"
    RECLAIM = "reclaim"  # its lease ran out
    DEAD = "dead"
    EXPIRE = "expire"
    REVOKE = "revoke"
    DEPENDENCIES_MET = "dependencies_met"
    DEPENDENCY_FAILED = "dependency_failed"
    DELEGATE = "delegate"  # other jobs, stored in this step, are to give its result
    FORWARD = "forward"  # they have given it
    REPLAY = "replay"  # taken out of the dead letters
    DEPENDENCY_REPLAYED = "dependency_replayed"


S, E = JobState, Event

TRANSITIONS: dict[tuple[JobState, Event], JobState] = {
    (S.WAITING, E.DEPENDENCIES_MET): S.QUEUED,
    (S.WAITING, E.DEPENDENCY_FAILED): S.SKIPPED,
    (S.WAITING, E.FORWARD): S.SUCCEEDED,
    (S.WAITING, E.REVOKE): S.REVOKED,
    (S.WAITING, E.EXPIRE): S.EXPIRED,
    (S.QUEUED, E.RESERVE): S.RUNNING,
    (S.QUEUED, E.EXPIRE): S.EXPIRED,
    (S.QUEUED, E.REVOKE): S.REVOKED,
    (S.QUEUED, E.DEAD): S.FAILED,  # parked longer than the threshold
    (S.RETRYING, E.RESERVE): S.RUNNING,
    (S.RETRYING, E.EXPIRE): S.EXPIRED,
    (S.RETRYING, E.REVOKE): S.REVOKED,
    (S.RETRYING, E.DEAD): S.FAILED,
    (S.RUNNING, E.ACK): S.SUCCEEDED,
    (S.RUNNING, E.DELEGATE): S.WAITING,
    (S.RUNNING, E.RETRY): S.RETRYING,
    (S.RUNNING, E.NACK): S.QUEUED,
    (S.RUNNING, E.DEFER): S.QUEUED,
    (S.RUNNING, E.RELEASE): S.QUEUED,
    (S.RUNNING, E.RECLAIM): S.QUEUED,
    (S.RUNNING, E.DEAD): S.FAILED,
    (S.RUNNING, E.EXPIRE): S.EXPIRED,
    (S.RUNNING, E.REVOKE): S.REVOKED,
    (S.FAILED, E.REPLAY): S.QUEUED,
    (S.SKIPPED, E.DEPENDENCY_REPLAYED): S.WAITING,
}

TERMINAL = frozenset({S.SUCCEEDED, S.FAILED, S.EXPIRED, S.REVOKED, S.SKIPPED})


def next_state(state: JobState, event: Event) -> JobState | None:
    """The state that ``event`` leads to from ``state``; ``None`` where it has no effect."""
    return TRANSITIONS.get((state, event))
