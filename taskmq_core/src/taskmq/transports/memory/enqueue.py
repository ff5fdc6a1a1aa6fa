"""Storing a batch of jobs: all of them, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from taskmq.envelope import Envelope, Sealed, fingerprint
from taskmq.errors import IdempotencyConflict, UnknownDependency
from taskmq.transport import Enqueued
from taskmq.transports._capacity import DROPPED, make_room
from taskmq.transports._fair import Line, Turnstile

from . import dependencies, endings
from .fair import MemoryFairBooks
from .gates import open_gates, refill
from .job import Job
from .store import Key, Store

__all__ = ["check", "enqueue"]


class _Plan(msgspec.Struct):
    """What a batch would change. Nothing is touched until all of it was found acceptable."""

    jobs: dict[str, Sealed] = {}
    keys: dict[str, Key] = {}


def enqueue(store: Store, batch: Sequence[Sealed], now: float) -> list[Enqueued]:
    """See `taskmq.transport.Producer.enqueue`."""
    plan = _Plan()
    answers = [_accept(store, plan, sealed, now) for sealed in batch]
    _check_dependencies(store, plan.jobs)
    make_room(MemoryRoom(store, now), plan.jobs.values())
    for name, key in plan.keys.items():
        store.keys[name] = key
        store.key_ends.put(name, key.until)
    added = _add(store, plan.jobs.values(), now)
    dependencies.link(store, added, now)
    return answers


def check(store: Store, batch: Sequence[Sealed], now: float) -> None:
    """Raises `IdempotencyConflict` or `UnknownDependency` as `enqueue` would, and changes
    nothing."""
    plan = _Plan()
    for sealed in batch:
        _accept(store, plan, sealed, now)
    _check_dependencies(store, plan.jobs)


class MemoryRoom:
    """A `taskmq.transports._capacity.Room`."""

    def __init__(self, store: Store, now: float) -> None:
        self._store = store
        self._now = now

    def depths(self, queue: str) -> tuple[int, int]:
        self._store.promote([queue], self._now)
        lanes = self._store.lanes[queue]
        ready = sum(len(line) for line in lanes.ready.values())
        return ready, len(lanes.delayed) + len(lanes.held)

    def drop(self, counts: Mapping[str, int]) -> None:
        jobs = [job for queue, count in counts.items() for job in self._lowest(queue, count)]
        for job in jobs:
            job.forfeit()
            job.dead_reason = DROPPED
        endings.give_up_all(self._store, jobs, self._now)
        refill(self._store, self._now)

    def _lowest(self, queue: str, count: int) -> list[Job]:
        lines = self._store.lanes[queue].ready
        lowest: list[str] = []
        for priority in sorted(lines):
            lowest += lines[priority].lowest(count - len(lowest))
        return [self._store.jobs[job_id] for job_id in lowest]


def _add(store: Store, batch: Iterable[Sealed], now: float) -> list[Job]:
    gates = open_gates(store, now)
    turnstile = Turnstile(MemoryFairBooks(store))
    added: list[Job] = []
    for sealed in batch:
        envelope = sealed.envelope
        turn = None
        if envelope.fair is not None or store.fair.present:
            turn = turnstile.enter(Line(envelope.queue, envelope.priority), envelope.fair)
        eta, limits = envelope.eta, envelope.limits
        if not limits or envelope.after or (eta is not None and eta > now):
            added.append(store.add(sealed, now, turn=turn))
            continue
        holder = gates.place(limits, envelope.queue, envelope.priority)
        gate = holder or limits[-1].gate
        added.append(store.add(sealed, now, turn=turn, held=holder is not None, gate=gate))
    if store.fair.present:
        gates.refill()
    return added


def _accept(store: Store, plan: _Plan, sealed: Sealed, now: float) -> Enqueued:
    envelope = sealed.envelope
    if envelope.id in store.jobs or envelope.id in plan.jobs:
        return Enqueued(envelope.id, created=False)
    if envelope.key is not None:
        key = Key(envelope.id, fingerprint(envelope), now + envelope.key_ttl)
        held = plan.keys.get(envelope.key) or store.keys.get(envelope.key)
        if held is not None and now < held.until:
            _refuse_another(envelope, key, held)
            return Enqueued(held.job_id, created=False)
        plan.keys[envelope.key] = key
    plan.jobs[envelope.id] = sealed
    return Enqueued(envelope.id, created=True)


def _refuse_another(envelope: Envelope, key: Key, held: Key) -> None:
    if key.fingerprint != held.fingerprint:
        raise IdempotencyConflict(
            f"key {envelope.key!r} stands for job {held.job_id} with another task or other "
            f"arguments than this call of {envelope.task}; nothing was stored",
            key=envelope.key or "",
            job_id=held.job_id,
        )


def _check_dependencies(store: Store, batch: Mapping[str, Sealed]) -> None:
    for sealed in batch.values():
        for dependency in sealed.envelope.after:
            if dependency.job not in batch and dependency.job not in store.jobs:
                raise UnknownDependency(
                    f"job {sealed.envelope.id} ({sealed.envelope.task}) waits for job "
                    f"{dependency.job}, which is neither in its batch nor in the store; "
                    "nothing was stored"
                )
