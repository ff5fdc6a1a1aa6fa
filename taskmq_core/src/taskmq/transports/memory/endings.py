"""The ways in which a job ends, each with what it means for the jobs that wait for it."""

from __future__ import annotations

from collections.abc import Sequence

from taskmq.codec import Payload
from taskmq.records import Failure
from taskmq.states import Event

from . import dependencies
from .job import Job
from .store import Store

__all__ = ["discard", "end", "end_all", "give_up", "succeed"]


def succeed(store: Store, job: Job, result: Payload | None, now: float) -> None:
    """SUCCEEDED. A job that keeps nothing is deleted in the same step."""
    store.move(job, Event.ACK, now)
    job.result = result if job.store_result else None
    job.failure = None
    job.data = b""
    for edge in job.edges.values():
        edge.result = None  # it will not run again
    dependencies.feed(store, job, result, now)
    if job.result_ttl <= 0:
        store.delete(job)


def end(store: Store, job: Job, event: Event, now: float) -> None:
    """Any end without success."""
    end_all(store, [job], event, now)


def end_all(store: Store, jobs: Sequence[Job], event: Event, now: float) -> None:
    """The same end for several. One that waits for another of them ends as it does, and is not
    skipped because of it."""
    for job in jobs:
        store.move(job, event, now)
    for job in jobs:
        dependencies.skip(store, job, now)


def give_up(
    store: Store, job: Job, reason: str, now: float, failure: Failure | None = None
) -> None:
    """FAILED: into the dead letters."""
    text = f"{reason}: {failure.type}: {failure.message}" if failure else reason
    job.note(Event.DEAD, now, text)
    job.dead_reason = reason
    job.failure = failure or job.failure
    end(store, job, Event.DEAD, now)


def discard(store: Store, job: Job, now: float) -> None:
    """Deleted, finished or not."""
    dependencies.skip(store, job, now)
    store.delete(job)
