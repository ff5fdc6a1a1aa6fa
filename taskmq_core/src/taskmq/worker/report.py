"""What a worker did: counted as it is settled, reported when it ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from taskmq.transport import Ack, DeadLetter, Release, RetryLater, Revoke, Settlement

__all__ = ["Tally", "WorkerReport"]


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """Counts of settlements that the store accepted, over one run of a worker.

    ``processed`` are the jobs that ran, however they ended. ``released`` were given back
    unstarted. ``interrupted`` were running when the time for the stop was over: they were ended
    and given back, and run again elsewhere. ``abandoned`` still run, in a pool that cannot end
    them: they run again elsewhere once their leases have run out, or after `Worker.hand_over`.
    """

    processed: int = 0
    succeeded: int = 0
    failed: int = 0
    retried: int = 0
    released: int = 0
    seconds: float = 0.0
    abandoned: int = 0
    interrupted: int = 0

    def __str__(self) -> str:
        """``3 jobs in 0.5 s: 2 succeeded, 1 failed``"""
        counts = {
            "succeeded": self.succeeded,
            "failed": self.failed,
            "to be retried": self.retried,
            "given back unstarted": self.released,
            "cut short, to run again": self.interrupted,
            "left running, to run again": self.abandoned,
        }
        told = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
        jobs = "job" if self.processed == 1 else "jobs"
        return f"{self.processed:,} {jobs} in {self.seconds:.1f} s" + (f": {told}" if told else "")


class Tally:
    """Counts settlements by kind."""

    def __init__(self) -> None:
        self._kinds: Counter[type[Settlement]] = Counter()

    def add(self, settlements: Iterable[Settlement]) -> None:
        self._kinds.update(map(type, settlements))

    @property
    def processed(self) -> int:
        return sum(self._kinds[kind] for kind in (Ack, RetryLater, DeadLetter, Revoke))

    def report(self, *, seconds: float, abandoned: int, interrupted: int = 0) -> WorkerReport:
        return WorkerReport(
            processed=self.processed,
            succeeded=self._kinds[Ack],
            failed=self._kinds[DeadLetter],
            retried=self._kinds[RetryLater],
            released=self._kinds[Release],
            seconds=seconds,
            abandoned=abandoned,
            interrupted=interrupted,
        )
