"""What each settlement does to its job."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from taskmq.envelope import Sealed
from taskmq.states import Event, JobState
from taskmq.transport import (
    Ack,
    DeadLetter,
    Defer,
    Delegate,
    Expire,
    Nack,
    Release,
    RetryLater,
    Revoke,
    Settled,
    Settlement,
)

from . import dependencies, endings
from .enqueue import check, enqueue
from .job import Job
from .store import Store

__all__ = ["check_new_jobs", "lose", "settle"]

WORKER_LOST = "worker_lost"


def settle(store: Store, settlement: Settlement, now: float) -> Settled:
    """Apply a settlement, if its delivery is current."""
    job = store.jobs.get(settlement.delivery.job_id)
    if job is None or job.token != settlement.delivery.token:
        return Settled.LEASE_LOST
    kind = type(settlement)
    if job.state is not JobState.RUNNING:
        return Settled.REPEATED if job.settled_as is kind else Settled.LEASE_LOST
    job.settled_as = kind
    if not (isinstance(settlement, Defer) and settlement.park):
        job.parked_reason = job.parked_at = job.park_ttl = None
    _APPLY[kind](store, job, settlement, now)
    return Settled.DONE


def check_new_jobs(store: Store, settlements: Sequence[Settlement], now: float) -> None:
    """Raises what keeps jobs from being stored that settlements bring, before anything changes."""
    batch: list[Sealed] = []
    for settlement in settlements:
        job = store.jobs.get(settlement.delivery.job_id)
        if job is not None and job.token == settlement.delivery.token:
            if isinstance(settlement, Ack):
                batch += settlement.spawn
            elif isinstance(settlement, Delegate) and not job.cancel_requested:
                batch += settlement.jobs
    if batch:
        check(store, batch, now)


def lose(store: Store, job: Job, event: Event, now: float, *, visible_at: float, why: str) -> None:
    """A delivery came to nothing: run the job again, or make it a dead letter."""
    job.reclaims += 1
    if job.cancel_requested:
        endings.end(store, job, Event.REVOKE, now)
    elif job.ack == "on_receipt" or job.reclaims >= job.max_deliveries:
        endings.give_up(store, job, WORKER_LOST, now)
    else:
        job.note(event, now, why)
        _back(store, job, event, now, visible_at=visible_at)


def _back(store: Store, job: Job, event: Event, now: float, *, visible_at: float) -> None:
    """Into the queue again, unless somebody asked it to stop."""
    if job.cancel_requested:
        endings.end(store, job, Event.REVOKE, now)
    else:
        job.visible_at = visible_at
        store.move(job, event, now)


def _ack(store: Store, job: Job, settlement: Ack, now: float) -> None:
    if settlement.spawn:
        enqueue(store, settlement.spawn, now)
        dependencies.join(store, job, [sealed.envelope.id for sealed in settlement.spawn], now)
    endings.succeed(store, job, settlement.result, now)


def _delegate(store: Store, job: Job, settlement: Delegate, now: float) -> None:
    if job.cancel_requested:
        endings.end(store, job, Event.REVOKE, now)
        return
    enqueue(store, settlement.jobs, now)
    dependencies.delegate(store, job, settlement.to, now)


def _retry(store: Store, job: Job, settlement: RetryLater, now: float) -> None:
    failure = settlement.failure
    job.note(Event.RETRY, now, f"{failure.type}: {failure.message}")
    job.failure = failure
    if settlement.envelope is not None:
        store.replace(job, settlement.envelope, now)
    job.attempt += 1
    _back(store, job, Event.RETRY, now, visible_at=now + settlement.delay)


def _nack(store: Store, job: Job, settlement: Nack, now: float) -> None:
    visible_at = now + settlement.delay
    lose(store, job, Event.NACK, now, visible_at=visible_at, why=settlement.detail)


def _dead_letter(store: Store, job: Job, settlement: DeadLetter, now: float) -> None:
    endings.give_up(store, job, settlement.reason, now, settlement.failure)


def _defer(store: Store, job: Job, settlement: Defer, now: float) -> None:
    job.deliveries -= 1
    if settlement.park:
        job.parked_reason = settlement.park
        job.park_ttl = settlement.park_ttl
        job.parked_at = now if job.parked_at is None else job.parked_at
    _back(store, job, Event.DEFER, now, visible_at=now + settlement.delay)


def _release(store: Store, job: Job, settlement: Release, now: float) -> None:
    job.deliveries -= 1
    job.yields += 1
    _back(store, job, Event.RELEASE, now, visible_at=job.visible_at)


def _expire(store: Store, job: Job, settlement: Expire, now: float) -> None:
    endings.end(store, job, Event.EXPIRE, now)


def _revoke(store: Store, job: Job, settlement: Revoke, now: float) -> None:
    endings.end(store, job, Event.REVOKE, now)


_APPLY: dict[type[Settlement], Callable[[Store, Job, Any, float], None]] = {
    Ack: _ack,
    Delegate: _delegate,
    RetryLater: _retry,
    Nack: _nack,
    DeadLetter: _dead_letter,
    Defer: _defer,
    Release: _release,
    Expire: _expire,
    Revoke: _revoke,
}
