"""Looks at all that is stored, and at what is reported of it."""

from __future__ import annotations

from collections.abc import Sequence

from taskmq.clock import Clock
from taskmq.records import JobFilter, JobRecord, QueueStats
from taskmq.states import TERMINAL, JobState
from taskmq.transport import Transport

from .findings import Findings
from .job import UNSTARTED
from .model import Model

__all__ = ["Audit"]


class Audit:
    """Compares a store with the model."""

    def __init__(self, clock: Clock, model: Model, findings: Findings) -> None:
        self._clock = clock
        self._model = model
        self._findings = findings
        self._verified: dict[str, JobRecord] = {}

    def verify_changed(self, store: Transport) -> None:
        """What changed in the model changed in the store."""
        changed = [job.id for job in self._model.jobs.values() if job.changed]
        if changed:
            self._verify(store, changed)

    def verify_all(self, store: Transport) -> None:
        """Every job is stored as it should be, and nothing else has changed."""
        self._verify(store, list(self._model.jobs))

    def _verify(self, store: Transport, ids: Sequence[str]) -> None:
        for job_id, record in zip(ids, store.get(ids), strict=True):
            job = self._model.jobs[job_id]
            if record is None:
                self._findings.complain("lost", f"({job.state}) is gone", job.id)
            elif job.changed or record != self._verified.get(job.id):
                job.changed = False
                self._verified[job.id] = record
                for rule, text in job.differences(record):
                    self._findings.complain(rule, text, job.id)

    def verify_reports(self, store: Transport, queues: Sequence[str], unclear: set[str]) -> None:
        """Nothing else is stored, and queues, workers and pauses are reported as they are. Of
        queues that are ``unclear``, nothing is demanded."""
        found = [record.id for record in store.find(JobFilter(limit=100_000))]
        if found != list(self._model.jobs):
            self._findings.complain("lost", f"find lists {found}, not {list(self._model.jobs)}")
        for stats in store.stats(queues):
            if stats.queue not in unclear:
                self._verify_stats(stats)
        workers = [worker.id for worker in store.workers()]
        self._findings.expect("workers", workers, sorted(self._model.workers))
        paused = [pause.queue for pause in store.paused()]
        self._findings.expect("paused", paused, sorted(self._model.flow.paused), "pause")

    def _verify_stats(self, stats: QueueStats) -> None:
        expected = self._stats(stats.queue)
        jobs = self._model.jobs.values()
        if any(job.envelope.limits for job in jobs if job.envelope.queue == stats.queue):
            # Who of them is held and who stands for the others is for the store to say.
            self._findings.expect("stats", _counts(stats), _counts(expected))
        else:
            self._findings.expect("stats", stats, expected)

    def _stats(self, queue: str) -> QueueStats:
        now = self._clock.now()
        jobs = [job for job in self._model.jobs.values() if job.envelope.queue == queue]
        ready = [job for job in jobs if job.is_ready(now)]
        delayed = [job for job in jobs if job.state in UNSTARTED and not job.is_ready(now)]
        by_priority: dict[int, int] = {}
        for job in ready:
            by_priority[job.envelope.priority] = by_priority.get(job.envelope.priority, 0) + 1
        return QueueStats(
            queue=queue,
            ready=len(ready),
            delayed=len(delayed),
            running=sum(job.is_running for job in jobs),
            waiting=sum(job.state is JobState.WAITING for job in jobs),
            parked=sum(job.parked_at is not None for job in delayed),
            dead=sum(job.state is JobState.FAILED for job in jobs),
            oldest_ready_at=min((job.visible_at for job in ready), default=None),
            ready_by_priority=by_priority,
        )

    def verify_ended(self) -> None:
        """Every job came to an end."""
        for job in self._model.jobs.values():
            if job.state not in TERMINAL:
                self._findings.complain("drain", f"is still {job.state}", job.id)


def _counts(stats: QueueStats) -> dict[str, int]:
    unstarted = stats.ready + stats.delayed + stats.held
    return {
        "unstarted": unstarted,
        "running": stats.running,
        "waiting": stats.waiting,
        "dead": stats.dead,
    }
