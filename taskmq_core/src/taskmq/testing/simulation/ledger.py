"""What workers do with their deliveries, beside what they may do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from taskmq.clock import Clock
from taskmq.transport import Delivery, Settlement

from .findings import Findings
from .model import Model

__all__ = ["Ledger", "Run"]


@dataclass(slots=True)
class Run:
    """What one worker does with one delivery. ``number`` counts the deliveries of all jobs."""

    number: int
    worker: str
    started: bool = False
    told_lost_in: int | None = None
    """The worker's round in which it was told that its lease is lost. It may start what is in its
    hands already, before it looks up; in the next round it has looked."""
    settled: set[type[Settlement]] = field(default_factory=set)
    ended: frozenset[type[Settlement]] | None = None
    """How it may be settled, once the task has come to its end."""


class Ledger:
    """The runs of all workers."""

    def __init__(self, clock: Clock, model: Model, findings: Findings) -> None:
        self.started = 0
        self.stale_starts = 0
        """Runs that began after the lease had run out: allowed, and worth counting."""
        self.rounds: Counter[str] = Counter()
        """How many rounds of its loop each worker has begun."""
        self._runs: dict[tuple[str, int], Run] = {}
        self._clock = clock
        self._model = model
        self._findings = findings

    def name(self, delivery: Delivery) -> str:
        """A delivery in the journal. Tokens are the store's business, and may be random."""
        run = self._runs.get((delivery.job_id, delivery.token))
        return f"{delivery.job_id} #{run.number if run else '?'}"

    def delivered(self, delivery: Delivery, worker: str) -> None:
        """A worker is to run this."""
        self._runs[delivery.job_id, delivery.token] = Run(len(self._runs) + 1, worker)

    def begins(self, worker: str, delivery: Delivery) -> None:
        """A worker starts to run a delivery."""
        now = self._clock.now()
        run = self._runs.get((delivery.job_id, delivery.token))
        job = self._model.jobs.get(delivery.job_id)
        self.started += 1
        if run is None or run.worker != worker:
            self._complain(f"was started by {worker}, which never got it", delivery)
            return
        if run.started:
            self._complain(f"was started twice by {worker}", delivery)
        if run.told_lost_in is not None and run.told_lost_in < self.rounds[worker]:
            self._complain(f"was started by {worker}, which knew it lost", delivery)
        if run.settled:
            self._complain(f"was started by {worker} after its settlement", delivery)
        run.started = True
        current = job if job is not None and job.token == delivery.token else None
        if current is not None and current.is_expired(now):
            text = f"was started by {worker} after its expiry"
            self._findings.complain("expiry", text, delivery.job_id)
        self.stale_starts += current is None or not current.is_held(now)

    def ends(self, delivery: Delivery, *kinds: type[Settlement]) -> None:
        """The task of a delivery has come to an end, which may be settled in these ways."""
        run = self._runs.get((delivery.job_id, delivery.token))
        if run is not None:
            run.ended = frozenset(kinds)

    def settled(self, settlement: Settlement) -> None:
        """A worker says how it went. It may say it again, not otherwise."""
        delivery = settlement.delivery
        run = self._runs.get((delivery.job_id, delivery.token))
        if run is None:
            return
        run.settled.add(type(settlement))
        if len(run.settled) > 1:
            kinds = sorted(kind.__name__ for kind in run.settled)
            self._complain(f"was settled as {' and '.join(kinds)}", delivery)
        if run.ended is not None and type(settlement) not in run.ended:
            self._complain(
                f"was settled as {type(settlement).__name__}, after another end", delivery
            )

    def lost(self, deliveries: Collection[Delivery]) -> None:
        """Their worker was told that it lost these leases."""
        for delivery in deliveries:
            run = self._runs.get((delivery.job_id, delivery.token))
            if run is not None:
                run.told_lost_in = self.rounds[run.worker]

    def _complain(self, text: str, delivery: Delivery) -> None:
        self._findings.complain("run", text, delivery.job_id)
