"""What a store should hold and answer: the port's promises, as slowly and plainly as can be.

Every look goes over all jobs; there is no index that could be wrong. It is a second opinion, so it
shares nothing with any transport but the port's own words and the table of transitions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from taskmq.envelope import Sealed, fingerprint
from taskmq.errors import IdempotencyConflict, QueueFull, TransportError, UnknownDependency
from taskmq.records import Dropped, MaintenanceReport, Reclaimed, WorkerRecord
from taskmq.states import TERMINAL, Event, JobState
from taskmq.transport import (
    Delivery,
    Enqueued,
    LeaseStatus,
)

from .capacity import Overfull, to_drop
from .job import UNSTARTED, Job
from .lifecycle import Lifecycle

__all__ = ["Key", "Model"]

OPEN = UNSTARTED | {JobState.WAITING}
WORKER_MEMORY = 86_400.0


@dataclass(frozen=True, slots=True)
class Key:
    """What an idempotency key stands for, until when."""

    job_id: str
    fingerprint: bytes
    until: float


class Model(Lifecycle):
    """Each method is one operation of the port: it changes the model and gives the answer that
    the store should give. What a store may choose freely, whom it delivers, is checked against
    `ready` and taken over by `deliver`."""

    def __init__(self) -> None:
        super().__init__()
        self.keys: dict[str, Key] = {}
        self.workers: dict[str, WorkerRecord] = {}
        self.leaders: dict[str, tuple[str, float]] = {}

    # -- storing -------------------------------------------------------------------------------

    def enqueue(self, batch: Sequence[Sealed], now: float) -> list[Enqueued] | type[TransportError]:
        """The answers, or the error that refuses the batch as a whole."""
        added: dict[str, Sealed] = {}
        keys: dict[str, Key] = {}
        answers = []
        for sealed in batch:
            envelope = sealed.envelope
            held = self._held_key(envelope.key, keys, now)
            if envelope.id in self.jobs or envelope.id in added:
                answers.append(Enqueued(envelope.id, created=False))
            elif held is not None and held.fingerprint != fingerprint(envelope):
                return IdempotencyConflict
            elif held is not None:
                answers.append(Enqueued(held.job_id, created=False))
            else:
                answers.append(Enqueued(envelope.id, created=True))
                added[envelope.id] = sealed
                if envelope.key is not None:
                    until = now + envelope.key_ttl
                    keys[envelope.key] = Key(envelope.id, fingerprint(envelope), until)
        for sealed in added.values():
            if any(d.job not in self.jobs | added for d in sealed.envelope.after):
                return UnknownDependency
        try:
            dropped = to_drop(self.jobs.values(), added.values(), now)
        except Overfull:
            return QueueFull
        for job in dropped:
            self.flow.forfeit(job)
            self._die([job], "queue_full", now, None)
        self.keys.update(keys)
        self._add(added.values(), now)
        return answers

    def _held_key(self, name: str | None, new: Mapping[str, Key], now: float) -> Key | None:
        key = None if name is None else new.get(name) or self.keys.get(name)
        return key if key is not None and now < key.until else None

    # -- housekeeping --------------------------------------------------------------------------

    def tidy(
        self, queues: Collection[str], now: float, told: Iterable[Dropped]
    ) -> tuple[Dropped, ...]:
        """What comes before a reservation. Of leases that ended, those come first whose jobs are
        ``told`` to be lost with them, in that order: it matters where workflows fail fast."""
        dropped = _dropped(self._reclaim(queues, now, told), "revoked")
        return dropped + _dropped(self._drop_expired(queues, now), "expired")

    def _reclaim(
        self, queues: Collection[str] | None, now: float, told: Iterable[Dropped]
    ) -> list[Job]:
        over = [job for job in self._in(queues, {JobState.RUNNING}) if not job.is_held(now)]
        self._take_back(_lost_first(over, told), now)
        return over

    def _drop_expired(self, queues: Collection[str] | None, now: float) -> list[Job]:
        expired = [job for job in self._in(queues, OPEN) if job.is_expired(now)]
        self._end(expired, Event.EXPIRE, now)
        return expired

    def maintain(self, now: float, told: Iterable[Dropped]) -> MaintenanceReport:
        reclaimed = self._reclaim(None, now, told)
        dropped = _dropped(reclaimed, "revoked")
        expired = self._drop_expired(None, now)
        forsaken = [job for job in self._in(None, {JobState.QUEUED}) if self._is_forsaken(job, now)]
        self._die(forsaken, "", now, None)
        past = [job for job in self._in(None, TERMINAL - {JobState.FAILED}) if _is_past(job, now)]
        for job in past:
            self._delete(job, "its retention", now)
        ended_keys = [name for name, key in self.keys.items() if key.until <= now]
        for name in ended_keys:
            del self.keys[name]
        silent = [w.id for w in self.workers.values() if w.heartbeat_at <= now - WORKER_MEMORY]
        for name in silent:
            del self.workers[name]
        return MaintenanceReport(
            reclaimed=len(reclaimed),
            expired=len(expired),
            dead=len(forsaken) + sum(job.dead_reason is not None for job in reclaimed),
            purged=len(past),
            keys_purged=len(ended_keys),
            workers_forgotten=len(silent),
            dropped=dropped + _dropped(expired, "expired") + _dropped(forsaken, ""),
        )

    def _is_forsaken(self, job: Job, now: float) -> bool:
        return job.parked_at is not None and job.parked_at + job.park_ttl <= now

    def _in(self, queues: Collection[str] | None, states: Collection[JobState]) -> list[Job]:
        return [
            job
            for job in self.jobs.values()
            if job.state in states and (queues is None or job.sealed.envelope.queue in queues)
        ]

    # -- reserving -----------------------------------------------------------------------------

    def waiting(self, queues: Collection[str], now: float) -> list[Job]:
        """Those that are due in queues that are not paused."""
        going = {queue for queue in queues if queue not in self.flow.paused}
        return [job for job in self._in(going, UNSTARTED) if job.visible_at <= now]

    def ready(self, queues: Collection[str], now: float) -> list[Job]:
        """Of these, those that no limit keeps."""
        return [job for job in self.waiting(queues, now) if self.flow.opens_for(job) <= now]

    def deliver(self, delivery: Delivery, worker: str, lease_until: float, now: float) -> None:
        """Take a delivery over that the store has made."""
        job = self.jobs[delivery.job_id]
        self.flow.deliver(job, now)
        job.move(Event.RESERVE, now)
        job.deliveries += 1
        job.tokens.append(delivery.token)
        job.settled_as = None
        job.lease_until, job.worker = lease_until, worker

    def next_due_at(self, queues: Collection[str], now: float) -> float | None:
        """When something of these queues is due by itself: visible, let pass by a rate, or back
        from a lease."""
        instants = [job.lease_until or now for job in self._in(queues, {JobState.RUNNING})]
        for job in self._in(queues, UNSTARTED):
            if job.visible_at > now:
                instants.append(job.visible_at)
            elif (opens := self.flow.opens_for(job)) > now:
                instants.append(opens)
        return min((at for at in instants if at < math.inf), default=None)

    def extend(self, delivery: Delivery, lease_until: float) -> LeaseStatus:
        status = self.check(delivery)
        if status is not LeaseStatus.LOST:
            self.jobs[delivery.job_id].lease_until = lease_until
        return status

    def check(self, delivery: Delivery) -> LeaseStatus:
        job = self.jobs.get(delivery.job_id)
        if job is None or not job.is_running or job.token != delivery.token:
            return LeaseStatus.LOST
        if job.terminate_requested:
            return LeaseStatus.TERMINATE_REQUESTED
        return LeaseStatus.CANCEL_REQUESTED if job.cancel_requested else LeaseStatus.HELD

    def reclaim(self, worker: WorkerRecord, now: float, told: Iterable[Dropped]) -> Reclaimed:
        """The process of a worker is gone."""
        entry = self.workers.get(worker.id)
        if entry is None or not entry.is_same_run(worker):
            return Reclaimed()
        del self.workers[worker.id]
        held = [job for job in self._in(None, {JobState.RUNNING}) if job.worker == worker.id]
        self._take_back(_lost_first(held, told), now)
        return Reclaimed(len(held), _dropped(held, "revoked"))

    # -- what people do ------------------------------------------------------------------------

    def revoke(
        self, job_ids: Sequence[str], now: float, *, terminate: bool = False, by: str = ""
    ) -> list[bool]:
        found = [self.jobs.get(job_id) for job_id in job_ids]
        open_ = [job for job in found if job is not None and job.state not in TERMINAL]
        self._stop(open_, now, by=by, terminate=terminate)
        return [job in open_ for job in found]

    def delete(self, job_ids: Sequence[str], states: Collection[JobState], now: float) -> int:
        """Forget and bury: delete those that are in one of these states."""
        found = [self.jobs[job_id] for job_id in job_ids if job_id in self.jobs]
        chosen = [job for job in found if job.state in states]
        for job in chosen:
            self._delete(job, "forget or bury", now)
        return len(chosen)

    def purge(self, queue: str, now: float) -> int:
        chosen = self._in({queue}, UNSTARTED)
        for job in chosen:
            self._delete(job, "purge", now)
            for name, key in list(self.keys.items()):
                if key.job_id == job.id:
                    del self.keys[name]
        return len(chosen)

    def replay(
        self, job_ids: Sequence[str], envelopes: Mapping[str, Sealed], now: float
    ) -> list[bool]:
        return [self._replay(self.jobs.get(name), envelopes.get(name), now) for name in job_ids]

    def _replay(self, job: Job | None, envelope: Sealed | None, now: float) -> bool:
        if job is None or job.state is not JobState.FAILED:
            return False
        if envelope is not None:
            job.redirect(envelope)
        job.note()
        job.attempt, job.deliveries, job.reclaims, job.yields = 1, 0, 0, 0
        job.finished_at = job.dead_reason = job.revoked_by = job.revoked_at = None
        job.reported = job.cancel_requested = job.terminate_requested = False
        job.visible_at = now
        job.move(Event.REPLAY, now)
        self._graph.restore(job, now)
        return True

    def unpark(self, tasks: Collection[str], now: float) -> tuple[int, int]:
        """How many, and how many more it may be: a job that a rate keeps may count as delayed."""
        parked = [job for job in self._in(None, {JobState.QUEUED}) if job.parked_at is not None]
        wanted = [job for job in parked if job.envelope.task in tasks]
        chosen = [job for job in wanted if job.visible_at > now]
        for job in chosen:
            job.visible_at = now
        return len(chosen), sum(bool(job.envelope.limits) for job in wanted if job not in chosen)

    def pause(self, queue: str) -> bool:
        if queue in self.flow.paused:
            return False
        self.flow.paused.add(queue)
        return True

    def resume(self, queue: str) -> bool:
        if queue not in self.flow.paused:
            return False
        self.flow.paused.discard(queue)
        return True

    # -- leaders -------------------------------------------------------------------------------

    def acquire(self, name: str, owner: str, ttl: float, now: float) -> bool:
        holder, until = self.leaders.get(name, ("", 0.0))
        if holder != owner and now < until:
            return False
        self.leaders[name] = (owner, now + ttl)
        return True

    def surrender(self, name: str, owner: str, now: float) -> bool:
        holder, until = self.leaders.get(name, ("", 0.0))
        if holder != owner or until <= now:
            return False
        del self.leaders[name]
        return True


def _dropped(jobs: Iterable[Job], otherwise: str) -> tuple[Dropped, ...]:
    """Those that have ended; ``otherwise`` is the reason of those that are no dead letters."""
    return tuple(
        Dropped(job.id, job.envelope.task, job.envelope.queue, job.dead_reason or otherwise)
        for job in jobs
        if job.state in TERMINAL
    )


def _lost_first(jobs: Iterable[Job], told: Iterable[Dropped]) -> list[Job]:
    lost = [each.job_id for each in told if each.reason == "worker_lost"]
    places = {job_id: place for place, job_id in enumerate(lost)}
    return sorted(jobs, key=lambda job: places.get(job.id, len(places)))


def _is_past(job: Job, now: float) -> bool:
    return (job.finished_at or 0.0) + job.envelope.result_ttl <= now
