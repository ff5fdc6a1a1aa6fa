"""Handing out deliveries, and the housekeeping that comes before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import msgspec

from taskmq.records import Dropped
from taskmq.states import TERMINAL, Event, JobState
from taskmq.transport import Delivery, Reservation
from taskmq.transports._fair import Line, Turn, Turnstile
from taskmq.transports._gates import Gates, pause_gate
from taskmq.turns import Turns

from . import endings
from .fair import MemoryFairBooks
from .gates import open_gates
from .job import Job
from .settle import lose
from .store import Store

__all__ = [
    "drop_expired",
    "dropped_of",
    "open_queues",
    "reclaim",
    "reclaim_from",
    "reserve",
    "respect_pauses",
    "tidy",
    "top_priority",
]


PROMOTED_AT_ONCE = 5_000
"""How many due jobs of a queue one exchange makes ready, and perhaps holds behind a limit: some
50 ms, for which others have to wait. What is left makes `Exchange.next_due_at` the present."""


def respect_pauses(store: Store, wanted: Reservation) -> Reservation:
    """The same, with a quota of 0 for the queues that are paused."""
    if not store.paused:
        return wanted
    quotas = {**wanted.quotas, **dict.fromkeys(store.paused, 0)}
    return msgspec.structs.replace(wanted, quotas=quotas)


def tidy(store: Store, queues: Iterable[str], now: float) -> list[Dropped]:
    """Bring queues up to date; the jobs that left them so."""
    dropped: list[Dropped] = []
    for queue in queues:
        dropped += dropped_of(reclaim(store, queue, now))
    dropped += dropped_of(drop_expired(store, queues, now))
    store.promote(queues, now, PROMOTED_AT_ONCE)
    return dropped


def reclaim(store: Store, queue: str, now: float, limit: int | None = None) -> list[Job]:
    """Take back the jobs whose lease has ended."""
    taken = [store.jobs[id] for id in store.lanes[queue].leased.due(now, limit)]
    for job in taken:
        _take_back(store, job, now, "its lease ended")
    return taken


def reclaim_from(store: Store, worker_id: str, now: float) -> list[Job]:
    """Take back whatever a worker holds."""
    leased = (store.jobs[id] for lanes in store.lanes.values() for id in lanes.leased)
    held = [job for job in leased if job.worker == worker_id]
    for job in held:
        _take_back(store, job, now, "its worker is gone")
    return held


def _take_back(store: Store, job: Job, now: float, why: str) -> None:
    job.parked_reason = job.parked_at = job.park_ttl = None
    visible_at = now if job.lease_until is None else min(now, job.lease_until)
    lose(store, job, Event.RECLAIM, now, visible_at=visible_at, why=why)


def drop_expired(
    store: Store, queues: Iterable[str], now: float, limit: int | None = None
) -> list[Job]:
    """End the jobs that nobody started in time."""
    expired: list[Job] = []
    for queue in queues:
        left = None if limit is None else limit - len(expired)
        expired += [store.jobs[id] for id in store.lanes[queue].expiring.due(now, left)]
    endings.end_all(store, expired, Event.EXPIRE, now)
    return expired


def reserve(store: Store, turns: Turns, wanted: Reservation, now: float) -> list[Delivery]:
    """The most urgent ready jobs: by priority, then by turns of the queues, then in store order.
    What a limit does not let pass is held."""
    gates = open_gates(store, now)
    deliveries: list[Delivery] = []
    while True:
        if wanted.jobs is None:
            _reserve_ready(store, gates, turns, wanted, deliveries, now)
        else:
            _reserve_named(store, gates, wanted, wanted.jobs, deliveries, now)
        if not gates.refill() or len(deliveries) >= wanted.limit:
            return deliveries


def _reserve_ready(
    store: Store,
    gates: Gates,
    turns: Turns,
    wanted: Reservation,
    deliveries: list[Delivery],
    now: float,
) -> None:
    while (left := wanted.limit - len(deliveries)) > 0:
        quotas = quotas_left(wanted, deliveries)
        priority = top_priority(store, open_queues(wanted, deliveries))
        if priority is None:
            break
        available = _available(store, wanted.queues, priority)
        for queue, quota in quotas.items():
            available[queue] = min(available.get(queue, 0), quota)
        shares = turns.share(available, wanted.queues, left)
        for queue, count in shares.items():
            deliveries += _take(store, gates, Line(queue, priority), count, wanted, now)


def _reserve_named(
    store: Store,
    gates: Gates,
    wanted: Reservation,
    names: Iterable[str],
    deliveries: list[Delivery],
    now: float,
) -> None:
    """These and no others, in this order."""
    for job in [store.jobs[name] for name in names if name in store.jobs]:
        if len(deliveries) >= wanted.limit:
            break
        if job.queue not in open_queues(wanted, deliveries) or not store.is_ready(job):
            continue
        delivery = _try(store, gates, job, wanted, now)
        if delivery is not None:
            deliveries.append(delivery)
            _serve(store, Line(job.queue, job.priority), [job.turn])


def _take(
    store: Store, gates: Gates, line: Line, count: int, wanted: Reservation, now: float
) -> list[Delivery]:
    """Lease the first jobs of a line that may run."""
    ready = store.lanes[line.queue].ready[line.priority]
    taken: list[Delivery] = []
    turns: list[Turn | None] = []
    while ready and len(taken) < count:
        job = store.jobs[ready.pop()]
        delivery = _try(store, gates, job, wanted, now)
        if delivery is not None:
            taken.append(delivery)
            turns.append(job.turn)
    _serve(store, line, turns)
    return taken


def _try(store: Store, gates: Gates, job: Job, wanted: Reservation, now: float) -> Delivery | None:
    """Lease a ready job, or hold it."""
    gate = _obstacle(store, gates, job)
    delivery = None
    if gate is None:
        delivery = _lease(store, job, wanted, now)
    else:
        store.hold(job, gate, now)
    if job.limits and gates.pressing:
        gates.press_on()
    return delivery


def _obstacle(store: Store, gates: Gates, job: Job) -> str | None:
    """The gate that a ready job has to be held at, if it may not run."""
    if job.workflow in store.paused_workflows:
        gates.step_aside(job.limits, job.queue, job.priority)
        return pause_gate(job.workflow or "")
    return gates.admit(job.limits, job.queue, job.priority) if job.limits else None


def _serve(store: Store, line: Line, turns: Iterable[Turn | None]) -> None:
    taken = [turn for turn in turns if turn is not None]
    if taken:
        Turnstile(MemoryFairBooks(store)).serve(line, taken)


def quotas_left(wanted: Reservation, deliveries: Iterable[Delivery]) -> dict[str, int]:
    """How many more may be of each queue that has a quota."""
    if not wanted.quotas:
        return {}
    taken = Counter(delivery.queue for delivery in deliveries)
    return {
        queue: quota - taken[queue]
        for queue, quota in wanted.quotas.items()
        if queue in wanted.queues
    }


def open_queues(wanted: Reservation, deliveries: Iterable[Delivery]) -> list[str]:
    """The queues whose quota is not used up."""
    quotas = quotas_left(wanted, deliveries)
    return [queue for queue in wanted.queues if quotas.get(queue, 1) > 0]


def top_priority(store: Store, queues: Iterable[str]) -> int | None:
    """The highest priority that is ready in any of these queues."""
    tops = (store.lanes[queue].top_priority() for queue in queues)
    return max((top for top in tops if top is not None), default=None)


def _available(store: Store, queues: Mapping[str, int], priority: int) -> dict[str, int]:
    return {queue: len(store.lanes[queue].ready.get(priority, ())) for queue in queues}


def _lease(store: Store, job: Job, wanted: Reservation, now: float) -> Delivery:
    job.token = store.next_token()
    job.settled_as = None
    job.deliveries += 1
    job.started_at = now
    job.worker = wanted.worker
    job.lease_until = now + wanted.lease
    store.move(job, Event.RESERVE, now)
    return job.delivery()


def dropped_of(jobs: Iterable[Job]) -> list[Dropped]:
    """Those of these jobs that housekeeping has ended."""
    ended = (job for job in jobs if job.state in TERMINAL)
    return [Dropped(job.id, job.task, job.queue, _reason(job)) for job in ended]


def _reason(job: Job) -> str:
    if job.dead_reason is not None:
        return job.dead_reason
    return "revoked" if job.state is JobState.REVOKED else "expired"
