"""Which jobs wait for which, and what one's end means for the others."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from taskmq.codec import Payload
from taskmq.states import TERMINAL, Event, JobState

from .job import Edge, Job

__all__ = ["Graph"]

LOST = TERMINAL - {JobState.SUCCEEDED}


class Graph:
    """The dependencies among the jobs of a store."""

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._jobs = jobs

    def link(self, added: Collection[Job], now: float) -> None:
        """New jobs find out what they have to wait for."""
        for job in added:
            for name, edge in job.edges.items():
                if self._jobs[name].state is JobState.SUCCEEDED:
                    edge.met, edge.result = True, self._jobs[name].result
                    edge.optional = not self._jobs[name].envelope.store_result
        for job in added:
            if job.state is JobState.WAITING and self._has_lost(job):
                job.move(Event.DEPENDENCY_FAILED, now)
                self.skip(job, now)
            self._queue_if_ready(job, now)

    def feed(self, job: Job, result: Payload | None, now: float) -> None:
        """A job succeeded."""
        for edge in job.edges.values():
            edge.result = None
        for dependent, edge in self._dependents(job):
            if not edge.met:
                edge.met, edge.result = True, result
                dependent.changed = True
                self._queue_if_ready(dependent, now)

    def skip(self, job: Job, now: float) -> None:
        """A job will not succeed: neither will those that wait for it."""
        lost = [job]
        while lost:
            for dependent, edge in self._dependents(lost.pop()):
                if dependent.state is JobState.WAITING and not edge.met:
                    dependent.move(Event.DEPENDENCY_FAILED, now)
                    lost.append(dependent)

    def restore(self, job: Job, now: float) -> None:
        """A dead job was replayed: those that were skipped may wait again."""
        restored = [job]
        while restored:
            for dependent, _ in self._dependents(restored.pop()):
                if dependent.state is JobState.SKIPPED and not self._has_lost(dependent):
                    dependent.finished_at = None
                    dependent.move(Event.DEPENDENCY_REPLAYED, now)
                    restored.append(dependent)

    def _dependents(self, job: Job) -> Iterator[tuple[Job, Edge]]:
        for other in self._jobs.values():
            if job.id in other.edges:
                yield other, other.edges[job.id]

    def _has_lost(self, job: Job) -> bool:
        """Whether something that it waits for cannot come any more."""
        return any(
            not edge.met and (name not in self._jobs or self._jobs[name].state in LOST)
            for name, edge in job.edges.items()
        )

    def _queue_if_ready(self, job: Job, now: float) -> None:
        if job.state is JobState.WAITING and not job.pending:
            job.visible_at = max(now, job.eta or now)
            job.move(Event.DEPENDENCIES_MET, now)
