"""Housekeeping that no worker waits for, and the reports about what is stored."""

from __future__ import annotations

from collections.abc import Iterable

from taskmq.records import (
    WORKER_MEMORY,
    Held,
    JobFilter,
    JobRecord,
    MaintenanceReport,
    QueueStats,
)

from . import endings
from .job import Job
from .reserve import drop_expired, dropped_of, reclaim
from .store import Store

__all__ = ["find", "maintain", "record_of", "stats_of"]


def maintain(store: Store, now: float, limit: int) -> MaintenanceReport:
    """See `taskmq.transport.Transport.maintain`."""
    reclaimed: list[Job] = []
    queues = list(store.lanes)
    for queue in queues:
        reclaimed += reclaim(store, queue, now, limit - len(reclaimed))
    dropped = dropped_of(reclaimed)  # before some of the others expire
    expired = drop_expired(store, queues, now, limit)
    forsaken = [store.jobs[id] for id in store.parked.due(now, limit)]
    for job in forsaken:
        job.dead_reason = job.parked_reason or "parked"
    endings.give_up_all(store, forsaken, now)
    dropped += dropped_of([*expired, *forsaken])
    past = [store.jobs[id] for id in store.finished.due(now, limit)]
    for job in past:
        endings.discard(store, job, now)
    store.fair.forget_served()
    for name in [name for name, held in store.leases.items() if held.until <= now]:
        del store.leases[name]
    ended_keys = store.key_ends.due(now, limit)
    for key in ended_keys:
        del store.keys[key]
    return MaintenanceReport(
        reclaimed=len(reclaimed),
        expired=len(expired),
        dead=len(forsaken) + sum(job.dead_reason is not None for job in reclaimed),
        purged=len(past),
        keys_purged=len(ended_keys),
        workers_forgotten=_forget_workers(store, now - WORKER_MEMORY),
        dropped=tuple(dropped),
    )


def _forget_workers(store: Store, since: float) -> int:
    """Drop the entries of those that were not heard since."""
    silent = [id for id, worker in store.workers.items() if worker.heartbeat_at <= since]
    for worker_id in silent:
        del store.workers[worker_id]
    return len(silent)


def stats_of(store: Store, queue: str) -> QueueStats:
    """Depths of one queue, which was brought up to date before."""
    lanes = store.lanes[queue]
    ready = {priority: len(line) for priority, line in lanes.ready.items() if line}
    jobs = store.jobs
    return QueueStats(
        queue=queue,
        ready=sum(ready.values()),
        delayed=len(lanes.delayed),
        running=len(lanes.leased),
        held=len(lanes.held),
        waiting=len(lanes.waiting),
        parked=sum(jobs[id].parked_at is not None for id in lanes.delayed),
        dead=len(lanes.dead),
        oldest_ready_at=min(
            (jobs[id].visible_at for line in lanes.ready.values() for id in line), default=None
        ),
        ready_by_priority=ready,
    )


def record_of(store: Store, job: Job) -> JobRecord:
    """What readers see of a job."""
    limit = job.holder
    if limit is None:
        return job.record()
    return job.record(Held(limit=limit, running=len(store.gates.running.get(limit.gate, ()))))


def find(store: Store, wanted: JobFilter) -> list[Job]:
    """Jobs that match a filter, in store order."""
    found: list[Job] = []
    for job in _candidates(store, wanted):
        if len(found) >= wanted.limit:
            break
        if _matches(job, wanted):
            found.append(job)
    return found


def _candidates(store: Store, wanted: JobFilter) -> Iterable[Job]:
    jobs: Iterable[Job] = store.jobs.values()
    if wanted.ids:
        known = (store.jobs.get(id) for id in set(wanted.ids))
        jobs = sorted((job for job in known if job), key=lambda job: job.sequence)
    if wanted.after is None:
        return jobs
    if wanted.after not in store.jobs:
        return ()
    behind = store.jobs[wanted.after].sequence
    return (job for job in jobs if job.sequence > behind)


def _matches(job: Job, wanted: JobFilter) -> bool:
    return (
        (not wanted.states or job.state in wanted.states)
        and (wanted.queue is None or job.queue == wanted.queue)
        and (wanted.task is None or job.task == wanted.task)
        and (wanted.key is None or job.key == wanted.key)
        and (wanted.workflow is None or job.workflow == wanted.workflow)
        and (wanted.stopping is None or job.cancel_requested == wanted.stopping)
        and (wanted.revoked is None or (job.revoked_at is not None) == wanted.revoked)
        and (wanted.dead is None or (job.dead_reason is not None) == wanted.dead)
        and (wanted.parked is None or (job.parked_reason is not None) == wanted.parked)
    )
