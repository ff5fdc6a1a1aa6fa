"""How jobs wait for each other.

All walks are loops over a list of jobs still to look at: a chain of 100,000 needs no stack.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from taskmq.codec import Payload
from taskmq.records import Loss
from taskmq.states import TERMINAL, Event, JobState
from taskmq.transport import MOST_READIED

from .job import Edge, Job
from .store import Store

__all__ = ["delegate", "join", "link", "restore", "spread"]

LOST = TERMINAL - {JobState.SUCCEEDED}


def link(store: Store, added: Iterable[Job], now: float) -> None:
    """Connect new jobs with those they wait for, some of which may have ended already."""
    waiting = [job for job in added if job.edges]
    for job in waiting:
        for dependency in job.edges:
            store.dependents.setdefault(dependency, []).append(job.id)
    ended = _Ended()
    for job in waiting:
        # All of them, also once it is skipped because of one: it may wait again.
        for dependency in job.edges:
            _tell(store, store.jobs[dependency], job, ended, now)
        _walk(store, ended, now)


def spread(store: Store, jobs: Iterable[Job], now: float, result: Payload | None = None) -> None:
    """Jobs ended (or are deleted, which is no success either): tell those that wait for them, and
    those that wait for these. ``result`` is handed over, by those that succeeded."""
    ended = _Ended((job, result) for job in jobs)
    _walk(store, ended, now)


def restore(store: Store, job: Job, now: float) -> None:
    """A job is out of the dead letters: whoever waits takes it into account again, and what was
    skipped because of it waits again."""
    restored = [job]
    while restored:
        returned = restored.pop()
        for dependent, edge in _dependents(store, returned):
            if dependent.state is JobState.WAITING and edge.loss is not None:
                edge.met, edge.loss = False, None
                dependent.pending += 1
            if dependent.state is not JobState.SKIPPED or _is_hopeless(store, dependent):
                continue
            dependent.finished_at = None
            store.move(dependent, Event.DEPENDENCY_REPLAYED, now)
            restored.append(dependent)


def join(store: Store, job: Job, spawned: Iterable[str], now: float) -> None:
    """Whoever waits for a job waits for what it has spawned, too; for one that has delegated to
    it, those do that wait for that."""
    ids = [job_id for job_id in spawned if job_id in store.jobs]
    spawners, joined = [job], list[Job]()
    while spawners:
        spawner = spawners.pop()
        for dependent, edge in list(_dependents(store, spawner)):
            if dependent.state is not JobState.WAITING or edge.met:
                continue
            if dependent.delegated_to == spawner.id:
                spawners.append(dependent)
                continue
            joined.append(dependent)
            for job_id in ids:
                if job_id not in dependent.edges:
                    dependent.edges[job_id] = Edge()
                    dependent.pending += 1
                    store.dependents.setdefault(job_id, []).append(dependent.id)
    ended = _Ended()
    for dependent in joined:
        for job_id in ids:  # which may have ended: skipped as soon as it was stored, for instance
            _tell(store, store.jobs[job_id], dependent, ended, now)
    _walk(store, ended, now)


def delegate(store: Store, job: Job, to: str, now: float) -> None:
    """Let a job wait for another one, to end as that does; for one that is not there it waits no
    longer."""
    job.edges, job.pending = {to: Edge()}, 1
    job.run_if, job.delegated_to, job.expires_at = "succeeded", to, None
    store.move(job, Event.DELEGATE, now)
    if to in store.jobs:
        link(store, [job], now)
    else:
        store.move(job, Event.DEPENDENCY_FAILED, now)
        spread(store, [job], now)


_Ended = deque[tuple[Job, Payload | None]]


def _walk(store: Store, ended: _Ended, now: float) -> None:
    while ended:
        job, result = ended.popleft()
        for dependent, edge in list(_dependents(store, job)):
            if not edge.met and dependent.state in (JobState.WAITING, JobState.SKIPPED):
                _take(store, job, result, dependent, edge, ended, now)
        if job.state is JobState.SUCCEEDED and job.result_ttl <= 0:
            store.delete(job)


def _tell(store: Store, job: Job, dependent: Job, ended: _Ended, now: float) -> None:
    """A dependent is new: this one may have ended before."""
    if job.state in TERMINAL and not dependent.edges[job.id].met:
        _take(store, job, job.result, dependent, dependent.edges[job.id], ended, now)


def _take(
    store: Store,
    job: Job,
    result: Payload | None,
    dependent: Job,
    edge: Edge,
    ended: _Ended,
    now: float,
) -> None:
    """One that is waited for has ended; what that means for who waits."""
    has_succeeded, is_waiting = job.state is JobState.SUCCEEDED, dependent.state is JobState.WAITING
    if not has_succeeded and (dependent.run_if == "succeeded" or not is_waiting):
        if is_waiting:
            store.move(dependent, Event.DEPENDENCY_FAILED, now)
            ended.append((dependent, None))
        return
    edge.met = True
    dependent.pending -= 1
    if has_succeeded:
        edge.result = result
    else:
        edge.loss = _loss(job)
    if dependent.pending or not is_waiting:
        return
    if dependent.delegated_to:
        store.move(dependent, Event.FORWARD, now)
        dependent.keep(result)
        ended.append((dependent, result))
    elif dependent.run_if == "failed" and not _has_lost(dependent):
        store.move(dependent, Event.DEPENDENCY_FAILED, now)
        ended.append((dependent, None))
    else:
        dependent.visible_at = dependent.earliest(now)
        store.move(dependent, Event.DEPENDENCIES_MET, now)
        if len(store.readied) < MOST_READIED:
            store.readied.append(dependent)


def _loss(job: Job) -> Loss:
    state = job.state if job.state in LOST else JobState.UNKNOWN
    return Loss(state=state.value, reason=job.dead_reason or "", failure=job.failure)


def _dependents(store: Store, job: Job) -> Iterator[tuple[Job, Edge]]:
    """The jobs that wait, or waited, for ``job`` and are still stored."""
    for job_id in store.dependents.get(job.id, ()):
        dependent = store.jobs.get(job_id)
        if dependent is not None and job.id in dependent.edges:
            yield dependent, dependent.edges[job.id]


def _has_lost(job: Job) -> bool:
    return any(edge.loss is not None for edge in job.edges.values())


def _is_hopeless(store: Store, job: Job) -> bool:
    """Whether something that a skipped job needs cannot come any more, or nothing is lost."""
    if job.run_if != "succeeded":
        return True
    found = ((store.jobs.get(id), edge) for id, edge in job.edges.items() if not edge.met)
    return any(needed is None or needed.state in LOST for needed, _ in found)
