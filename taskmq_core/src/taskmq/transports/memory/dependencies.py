"""How jobs wait for each other.

All walks are loops over a list of jobs still to look at: a chain of 100,000 needs no stack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from taskmq.codec import Payload
from taskmq.states import TERMINAL, Event, JobState

from .job import Edge, Job
from .store import Store

__all__ = ["feed", "link", "restore", "skip"]

LOST = TERMINAL - {JobState.SUCCEEDED}


def link(store: Store, added: Iterable[Job], now: float) -> None:
    """Connect new jobs with those they wait for, some of which may have ended already."""
    waiting = [job for job in added if job.edges]
    for job in waiting:
        for dependency, edge in job.edges.items():
            store.dependents.setdefault(dependency, []).append(job.id)
            if store.jobs[dependency].state is JobState.SUCCEEDED:
                _meet(job, edge, store.jobs[dependency].result)
    for job in waiting:
        if job.state is not JobState.WAITING:
            continue  # skipped a moment ago, with one of this batch that it waits for
        if any(_is_lost(store, dependency, edge) for dependency, edge in job.edges.items()):
            store.move(job, Event.DEPENDENCY_FAILED, now)
            skip(store, job, now)
        else:
            _queue_if_ready(store, job, now)


def feed(store: Store, job: Job, result: Payload | None, now: float) -> None:
    """A job succeeded: hand its result over, and queue what waited for nothing else."""
    for dependent, edge in _dependents(store, job):
        _meet(dependent, edge, result)
        _queue_if_ready(store, dependent, now)


def skip(store: Store, job: Job, now: float) -> None:
    """A job is lost: nothing that waits for it can run, nor what waits for that."""
    lost = [job]
    while lost:
        for dependent, edge in _dependents(store, lost.pop()):
            if dependent.state is JobState.WAITING and not edge.met:
                store.move(dependent, Event.DEPENDENCY_FAILED, now)
                lost.append(dependent)


def restore(store: Store, job: Job, now: float) -> None:
    """A job is out of the dead letters: what was skipped because of it waits again."""
    restored = [job]
    while restored:
        for dependent, _ in _dependents(store, restored.pop()):
            if dependent.state is not JobState.SKIPPED:
                continue
            if any(_is_lost(store, id, edge) for id, edge in dependent.edges.items()):
                continue  # another of its dependencies is still lost
            dependent.finished_at = None
            store.move(dependent, Event.DEPENDENCY_REPLAYED, now)
            restored.append(dependent)


def _dependents(store: Store, job: Job) -> Iterator[tuple[Job, Edge]]:
    """The jobs that wait, or waited, for ``job`` and are still stored."""
    for job_id in store.dependents.get(job.id, ()):
        dependent = store.jobs.get(job_id)
        if dependent is not None and job.id in dependent.edges:
            yield dependent, dependent.edges[job.id]


def _is_lost(store: Store, dependency: str, edge: Edge) -> bool:
    """Whether what an edge waits for cannot come any more."""
    job = store.jobs.get(dependency)
    return not edge.met and (job is None or job.state in LOST)


def _meet(job: Job, edge: Edge, result: Payload | None) -> None:
    if not edge.met:
        edge.met, edge.result = True, result
        job.pending -= 1


def _queue_if_ready(store: Store, job: Job, now: float) -> None:
    if job.state is JobState.WAITING and job.pending == 0:
        job.visible_at = job.earliest(now)
        store.move(job, Event.DEPENDENCIES_MET, now)
