"""The two points from which a simulation watches: next to the store, and next to a worker.

Between them are the faults: what the store did and what the worker was told may differ.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from taskmq.envelope import Sealed
from taskmq.errors import IdempotencyConflict, QueueFull, TransportError, UnknownDependency
from taskmq.records import MaintenanceReport, Reclaimed, WorkerRecord
from taskmq.states import TERMINAL, JobState
from taskmq.testing.wrapper import TransportWrapper
from taskmq.transport import (
    Delivery,
    Enqueued,
    Exchange,
    LeaseStatus,
    Reservation,
    Settled,
    Settlement,
    Transport,
)

from .journal import Journal
from .observer import Observer, open_queues_of
from .rules import Rule

__all__ = ["StoreSide", "WorkerSide"]

R = TypeVar("R")

REFUSALS = (IdempotencyConflict, UnknownDependency, QueueFull)
RULES_OF_REFUSALS: dict[type[TransportError], Rule] = {
    IdempotencyConflict: "key",
    UnknownDependency: "dependencies",
    QueueFull: "room",
}


class StoreSide(TransportWrapper):
    """Sees what a store really does for ``actor``, and tells the observer."""

    def __init__(self, inner: Transport, observer: Observer, actor: str) -> None:
        super().__init__(inner)
        self._observer = observer
        self._model = observer.model
        self._clock = observer.clock
        self._actor = actor

    def around(self, operation: str, call: Callable[[], R]) -> R:
        try:
            return call()
        except REFUSALS:
            raise
        except Exception as error:
            kind = "refused" if isinstance(error, TransportError) else "broke down in"
            self._observer.findings.failed(f"the store {kind} {operation}", error)
            raise

    def _note(self, text: str) -> None:
        self._observer.journal.add(self._actor, text)

    def enqueue(self, sealed: Sequence[Sealed]) -> list[Enqueued]:
        expected = self._model.enqueue(sealed, self._clock.now())
        ids = ", ".join(each.envelope.id for each in sealed)
        try:
            answers = super().enqueue(sealed)
        except REFUSALS as error:
            self._note(f"enqueue {ids} -> {type(error).__name__}")
            rule = RULES_OF_REFUSALS[type(error)]
            self._observer.expect(f"enqueue {ids}", type(error), expected, rule)
            raise
        self._note(f"enqueue {ids}")
        rule = RULES_OF_REFUSALS[expected] if isinstance(expected, type) else "key"
        self._observer.expect(f"enqueue {ids}", answers, expected, rule)
        return answers

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        answer = super().exchange(settlements, reservation)
        self._observer.exchanged(settlements, reservation, answer)
        self._note(self._told(settlements, reservation, answer))
        return answer

    def _told(
        self, settlements: Sequence[Settlement], wanted: Reservation | None, answer: Exchange
    ) -> str:
        name = self._observer.ledger.name
        parts = [
            f"{type(each).__name__} {name(each.delivery)} {status.value}"
            for each, status in zip(settlements, answer.settled, strict=False)
        ]
        if wanted is not None:
            got = ", ".join(map(name, answer.deliveries)) or "nothing"
            parts.append(f"reserve {wanted.limit} -> {got}")
        parts += [f"{each.job_id} left: {each.reason}" for each in answer.dropped]
        return "; ".join(parts)

    def reserve(self, reservation: Reservation) -> Sequence[Delivery]:
        return self.exchange((), reservation).deliveries

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        return self.exchange(settlements).settled

    def extend(self, deliveries: Sequence[Delivery], lease: float) -> list[LeaseStatus]:
        answers = super().extend(deliveries, lease)
        lease_until = self._clock.now() + lease
        expected = [self._model.extend(delivery, lease_until) for delivery in deliveries]
        ids = _ids(deliveries)
        self._note(f"extend {ids} -> {' '.join(answer.value for answer in answers)}")
        self._observer.expect(f"extend {ids}", answers, expected)
        return answers

    def check(self, deliveries: Sequence[Delivery]) -> list[LeaseStatus]:
        answers = super().check(deliveries)
        expected = [self._model.check(delivery) for delivery in deliveries]
        self._observer.expect(f"check {_ids(deliveries)}", answers, expected)
        return answers

    def revoke(
        self, job_ids: Sequence[str], *, terminate: bool = False, by: str = ""
    ) -> list[bool]:
        answers = super().revoke(job_ids, terminate=terminate, by=by)
        expected = self._model.revoke(job_ids, self._now(), terminate=terminate, by=by)
        force = " by force" if terminate else ""
        self._check(f"revoke {_names(job_ids)}{force}", answers, expected)
        return answers

    def forget(self, job_ids: Sequence[str]) -> int:
        count = super().forget(job_ids)
        forgettable = TERMINAL - {JobState.FAILED}
        expected = self._model.delete(job_ids, forgettable, self._now())
        self._check(f"forget {_names(job_ids)}", count, expected)
        return count

    def bury(self, job_ids: Sequence[str]) -> int:
        count = super().bury(job_ids)
        expected = self._model.delete(job_ids, {JobState.FAILED}, self._now())
        self._check(f"bury {_names(job_ids)}", count, expected)
        return count

    def purge(self, queue: str) -> int:
        count = super().purge(queue)
        self._check(f"purge {queue}", count, self._model.purge(queue, self._now()))
        return count

    def replay(self, job_ids: Sequence[str], envelopes: Mapping[str, Sealed]) -> list[bool]:
        answers = super().replay(job_ids, envelopes)
        expected = self._model.replay(job_ids, envelopes, self._now())
        self._check(f"replay {_names(job_ids)}", answers, expected)
        return answers

    def unpark(self, tasks: Sequence[str]) -> int:
        count = super().unpark(tasks)
        expected, doubtful = self._model.unpark(tasks, self._now())
        self._check("unpark", count, min(max(count, expected), expected + doubtful))
        return count

    def maintain(self, limit: int = 1000) -> MaintenanceReport:
        report = super().maintain(limit)
        expected = self._model.maintain(self._now(), report.dropped)
        certain = self._observer.certain
        found, wanted = certain(report.dropped), certain(expected.dropped)
        self._check("maintain", _bare(report), _bare(expected))
        self._observer.expect("maintain (dropped)", found, wanted)
        return report

    def register(self, worker: WorkerRecord) -> None:
        super().register(worker)
        self._model.workers[worker.id] = worker

    def deregister(self, worker_id: str) -> None:
        super().deregister(worker_id)
        self._model.workers.pop(worker_id, None)

    def reclaim(self, worker: WorkerRecord) -> Reclaimed:
        taken = super().reclaim(worker)
        expected = self._model.reclaim(worker, self._now(), taken.dropped)
        certain = self._observer.certain
        found, wanted = certain(taken.dropped), certain(expected.dropped)
        self._check(f"reclaim from {worker.id}", (taken.count, found), (expected.count, wanted))
        return taken

    def pause(self, queue: str, *, by: str, reason: str = "") -> bool:
        paused = super().pause(queue, by=by, reason=reason)
        self._check(f"pause {queue}", paused, self._model.pause(queue), "pause")
        return paused

    def resume(self, queue: str) -> bool:
        resumed = super().resume(queue)
        self._check(f"resume {queue}", resumed, self._model.resume(queue), "pause")
        return resumed

    def acquire(self, name: str, owner: str, ttl: float) -> bool:
        taken = super().acquire(name, owner, ttl)
        expected = self._model.acquire(name, owner, ttl, self._now())
        self._check(f"acquire {name} for {owner}", taken, expected, "leader")
        return taken

    def surrender(self, name: str, owner: str) -> bool:
        given = super().surrender(name, owner)
        expected = self._model.surrender(name, owner, self._now())
        self._check(f"surrender {name} of {owner}", given, expected, "leader")
        return given

    def _now(self) -> float:
        return self._clock.now()

    def _check(
        self, operation: str, found: object, expected: object, rule: Rule = "answer"
    ) -> None:
        self._note(f"{operation} -> {found}")
        self._observer.expect(operation, found, expected, rule)


class WorkerSide(TransportWrapper):
    """Sees what a worker is told, and notes the faults that come between.

    ``in_hand`` is what it was given and has not said it is done with. ``sleeps_until`` is when it
    would look again if nobody woke it (epoch seconds), after a look that left nothing for it;
    ``None`` while it will look anyway. ``has_room_for`` are the queues whose quota it has not used.
    """

    def __init__(self, inner: Transport, observer: Observer, actor: str) -> None:
        super().__init__(inner)
        self.in_hand: dict[tuple[str, int], Delivery] = {}
        self.sleeps_until: float | None = None
        self.has_room_for: list[str] = []
        self._observer = observer
        self._actor = actor

    @property
    def _journal(self) -> Journal:
        return self._observer.journal

    def around(self, operation: str, call: Callable[[], R]) -> R:
        try:
            return call()
        except TransportError as error:
            self._journal.add(self._actor, f"{operation} failed: {error}")
            raise

    def extend(self, deliveries: Sequence[Delivery], lease: float) -> list[LeaseStatus]:
        return self._told(deliveries, super().extend(deliveries, lease))

    def check(self, deliveries: Sequence[Delivery]) -> list[LeaseStatus]:
        return self._told(deliveries, super().check(deliveries))

    def _told(
        self, deliveries: Sequence[Delivery], answers: list[LeaseStatus]
    ) -> list[LeaseStatus]:
        told = zip(deliveries, answers, strict=True)
        lost = [delivery for delivery, status in told if status is LeaseStatus.LOST]
        self._observer.ledger.lost(lost)
        self._drop(lost)
        return answers

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        self.sleeps_until = None
        answer = super().exchange(settlements, reservation)
        if reservation is not None and len(answer.deliveries) < reservation.limit:
            due = answer.next_due_at
            self.sleeps_until = math.inf if due is None else due
            taken = Counter(delivery.queue for delivery in answer.deliveries)
            self.has_room_for = open_queues_of(reservation, taken)
        self._drop([each.delivery for each in settlements])
        self.in_hand.update({(each.job_id, each.token): each for each in answer.deliveries})
        return answer

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        """Its watchdog gives something back: even if that fails, it has let go of it."""
        self._drop([each.delivery for each in settlements])
        return super().settle(settlements)

    def _drop(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            self.in_hand.pop((delivery.job_id, delivery.token), None)


def _bare(report: MaintenanceReport) -> MaintenanceReport:
    return msgspec.structs.replace(report, dropped=())


def _ids(deliveries: Sequence[Delivery]) -> str:
    return ", ".join(each.job_id for each in deliveries)


def _names(job_ids: Sequence[str]) -> str:
    return ", ".join(job_ids)
