"""Reading what is stored."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from taskmq.records import JobFilter, JobRecord, PausedQueue, PausedWorkflow, QueueStats
from taskmq.states import JobState
from taskmq.transport import Delivery, LeaseStatus

from .server import Server
from .wire import Arguments, decode_stored, records_of

__all__ = ["check", "find", "get", "paused", "paused_workflows", "stats"]

_decode_stats = msgspec.msgpack.Decoder(list[list[Any]]).decode
_decode_pause = msgspec.msgpack.Decoder(tuple[str, float, str]).decode


def get(server: Server, job_ids: Sequence[str]) -> list[JobRecord | None]:
    """See `taskmq.transport.JobStore.get`."""
    return records_of(server.run("get", {"ids": list(job_ids)}))


def check(server: Server, deliveries: Sequence[Delivery]) -> list[LeaseStatus]:
    """See `taskmq.transport.Reserver.check`."""
    found = server.ask("HMGET", "jobs", *[delivery.job_id for delivery in deliveries])
    return [_status(*each) for each in zip(deliveries, found, strict=True)]


def _status(delivery: Delivery, data: bytes | None) -> LeaseStatus:
    job = None if data is None else decode_stored(data)
    if job is None or job.state != JobState.RUNNING or job.token != delivery.token:
        return LeaseStatus.LOST
    if job.terminate_requested:
        return LeaseStatus.TERMINATE_REQUESTED
    return LeaseStatus.CANCEL_REQUESTED if job.cancel_requested else LeaseStatus.HELD


# -- find ----------------------------------------------------------------------------------------


LANES = {
    JobState.WAITING: ("waiting",),
    JobState.QUEUED: ("ready", "delayed", "held"),
    JobState.RETRYING: ("ready", "delayed", "held"),
    JobState.RUNNING: ("leased",),
    JobState.FAILED: ("dead",),
}
"""Where the jobs of a state are, in each queue; those of any other are in ``finished``."""
MOST_LOOKED_UP = 5000
LOOKED_AT_ONCE = 1000


def find(server: Server, wanted: JobFilter) -> list[JobRecord]:
    """See `taskmq.transport.JobStore.find`. A search is made of steps, since all others wait for
    each: what changes meanwhile is seen as it is when its place is reached."""
    arguments = _arguments(wanted)
    if wanted.ids:
        return _records(_search(server, arguments))
    if wanted.workflow is not None:
        return _records(_search(server, {**arguments, "lane": f"workflow:{wanted.workflow}"}))
    if wanted.dead:
        names = [wanted.queue] if wanted.queue is not None else _queues(server)
        found: list[Placed] = []
        for name in names:
            found += _search(server, {**arguments, "lane": f"dead:{name}"})
        return _records(sorted(found, key=itemgetter(0))[: wanted.limit])
    ids = _look_up(server, wanted)
    if ids is None:
        return _records(_search(server, arguments))
    return _records(_search_among(server, arguments, ids))


Placed = tuple[int, JobRecord]
"""A record, and its place in the store."""


def _records(found: Sequence[Placed]) -> list[JobRecord]:
    return [record for _, record in found]


def _queues(server: Server) -> list[str]:
    return [name.decode() for name in server.ask("SMEMBERS", "queues")]


def _look_up(server: Server, wanted: JobFilter) -> list[str] | None:
    """All that may match, in store order, where that are few by its state; else ``None``."""
    if wanted.parked:
        lanes, shared = ["leased"], ["forsaken"]
    elif wanted.states:
        known = [LANES.get(state, ()) for state in wanted.states]
        lanes = list(dict.fromkeys(lane for each in known for lane in each))
        shared = [] if all(known) else ["finished"]
    else:
        return None
    arguments: Arguments = {"lanes": lanes, "shared": shared, "most": MOST_LOOKED_UP}
    if wanted.queue is not None:
        arguments["queue"] = wanted.queue
    found = server.run("lookup", arguments)
    return None if found is None else [job_id.decode() for job_id in found]


def _search_among(server: Server, arguments: Arguments, ids: Sequence[str]) -> list[Placed]:
    found: list[Placed] = []
    for start in range(0, len(ids), LOOKED_AT_ONCE):
        left = arguments["limit"] - len(found)
        if left < 1:
            break
        part = ids[start : start + LOOKED_AT_ONCE]
        found += _search(server, {**arguments, "ids": part, "limit": left})
    return found


def _arguments(wanted: JobFilter) -> Arguments:
    conditions: Arguments = {
        name: getattr(wanted, name)
        for name in ("queue", "task", "key", "workflow", "stopping", "revoked", "dead", "parked")
        if getattr(wanted, name) is not None
    }
    if wanted.states:
        conditions["states"] = {state.value: True for state in wanted.states}
    arguments: Arguments = {"wanted": conditions, "limit": wanted.limit}
    if wanted.ids:
        arguments["ids"] = list(wanted.ids)
    if wanted.after is not None:
        arguments["behind"] = wanted.after
    return arguments


def _search(server: Server, arguments: Arguments) -> list[Placed]:
    """The records, each with its place in the store."""
    found: list[Placed] = []
    place: int | None = 0
    while place is not None:
        step = {**arguments, "after": place, "limit": arguments["limit"] - len(found)}
        columns, place = server.run("find", step)
        places = [decode_stored(data).seq for data in columns[1]]
        records = [record for record in records_of(columns) if record is not None]
        found += zip(places, records, strict=True)
    return found


# -- queues --------------------------------------------------------------------------------------


def stats(server: Server, queues: Sequence[str] | None, now: float | None) -> list[QueueStats]:
    """See `taskmq.transport.JobStore.stats`: all of it at one moment."""
    arguments: Arguments = {"now": now}
    if queues is not None:
        arguments["queues"] = sorted(set(queues))
    every = [_stats(*each) for each in _decode_stats(server.run("stats", arguments))]
    every.sort(key=lambda each: each.queue)
    return [each for each in every if queues is not None or each != QueueStats(queue=each.queue)]


def _stats(
    queue: str,
    ready: int,
    delayed: int,
    running: int,
    waiting: int,
    parked: int,
    held: int,
    dead: int,
    by_priority: list[tuple[int, int]],
    oldest: float | None = None,
) -> QueueStats:
    return QueueStats(
        queue=queue,
        ready=ready,
        delayed=delayed,
        running=running,
        waiting=waiting,
        parked=parked,
        held=held,
        dead=dead,
        oldest_ready_at=None if oldest is None else float(oldest),
        ready_by_priority={int(priority): count for priority, count in by_priority},
    )


def paused(server: Server) -> list[PausedQueue]:
    """See `taskmq.transport.QueueControl.paused`."""
    return [
        PausedQueue(queue=name, by=by, paused_at=paused_at, reason=reason)
        for name, (by, paused_at, reason) in _pauses(server, "paused")
    ]


def paused_workflows(server: Server) -> list[PausedWorkflow]:
    """See `taskmq.transport.WorkflowControl.paused_workflows`."""
    return [
        PausedWorkflow(workflow=name, by=by, paused_at=paused_at, reason=reason)
        for name, (by, paused_at, reason) in _pauses(server, "paused_workflows")
    ]


def _pauses(server: Server, key: str) -> Iterator[tuple[str, tuple[str, float, str]]]:
    for name, data in sorted(server.ask_pairs(key)):
        yield name.decode(), _decode_pause(data)
