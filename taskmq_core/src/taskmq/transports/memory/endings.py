"""The ways in which a job ends, each with what it means for the jobs that wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from taskmq.codec import Payload
from taskmq.records import Failure
from taskmq.states import TERMINAL, Event, JobState

from . import dependencies
from .job import Job
from .store import Store

__all__ = ["discard", "end", "end_all", "give_up", "give_up_all", "revoke_all", "succeed"]

BY_WORKFLOW = "workflow"


def succeed(store: Store, job: Job, result: Payload | None, now: float) -> None:
    """SUCCEEDED. A job that keeps nothing is deleted in the same step."""
    store.move(job, Event.ACK, now)
    job.keep(result)
    dependencies.spread(store, [job], now, result)


def end(store: Store, job: Job, event: Event, now: float) -> None:
    """Any end without success."""
    end_all(store, [job], event, now)


def end_all(store: Store, jobs: Sequence[Job], event: Event, now: float) -> None:
    """The same end for several. One that waits for another of them ends as it does, and is not
    skipped because of it."""
    for job in jobs:
        store.move(job, event, now)
    dependencies.spread(store, jobs, now)
    if event in (Event.DEAD, Event.EXPIRE):
        for job in jobs:
            if job.fail_fast and job.workflow is not None:
                _end_workflow(store, job.workflow, now)


def revoke_all(
    store: Store, jobs: Iterable[Job], now: float, *, by: str, terminate: bool = False
) -> None:
    """Take out what has not started, and ask what runs to stop."""
    unstarted = []
    for job in jobs:
        if job.revoked_at is None:
            job.revoked_by, job.revoked_at = by, now
        job.cancel_requested = job.state is JobState.RUNNING
        job.terminate_requested = job.cancel_requested and (terminate or job.terminate_requested)
        if not job.cancel_requested:
            unstarted.append(job)
    end_all(store, unstarted, Event.REVOKE, now)


def give_up(
    store: Store, job: Job, reason: str, now: float, failure: Failure | None = None
) -> None:
    """FAILED: into the dead letters."""
    text = f"{reason}: {failure.type}: {failure.message}" if failure else reason
    job.note(Event.DEAD, now, text)
    job.dead_reason = reason
    job.failure = failure or job.failure
    end(store, job, Event.DEAD, now)


def give_up_all(store: Store, jobs: Sequence[Job], now: float) -> None:
    """The same for several that have their ``dead_reason``: all at once, since one that fails fast
    would revoke the others."""
    for job in jobs:
        job.note(Event.DEAD, now, job.dead_reason or "")
    end_all(store, jobs, Event.DEAD, now)


def discard(store: Store, job: Job, now: float) -> None:
    """Deleted, finished or not."""
    dependencies.spread(store, [job], now)
    store.delete(job)


def _end_workflow(store: Store, workflow: str, now: float) -> None:
    """One of its jobs failed: the others are not wanted any more, but for those that see to it."""
    members = [store.jobs[job_id] for job_id in store.workflows[workflow]]
    others = [job for job in members if job.state not in TERMINAL and job.run_if == "succeeded"]
    revoke_all(store, others, now, by=BY_WORKFLOW)
