"""Which jobs wait for which, and what one's end means for the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from taskmq.codec import Payload
from taskmq.states import TERMINAL, Event, JobState

from .job import Edge, Job

__all__ = ["Graph"]

Succeed = Callable[[Job, Payload | None, float], None]
LOST = TERMINAL - {JobState.SUCCEEDED}


class Graph:
    """The dependencies among the jobs of a store."""

    def __init__(self, jobs: Mapping[str, Job], succeed: Succeed) -> None:
        self._jobs = jobs
        self.succeed = succeed
        """What to do with one whose result another one has given."""

    def link(self, added: Collection[Job], now: float) -> None:
        """New jobs find out what they have to wait for."""
        for job in added:
            self._take(job, job.edges)
        for job in added:
            self._look(job, list(job.edges), now)

    def _take(self, job: Job, names: Collection[str]) -> None:
        """The results of those that have succeeded before."""
        for name in names:
            edge, other = job.edges[name], self._jobs[name]
            if other.state is JobState.SUCCEEDED:
                edge.met, edge.result = True, other.result
                edge.optional = not other.envelope.store_result

    def _look(self, job: Job, names: Collection[str], now: float) -> None:
        """Whether any of these is lost."""
        for name in names:
            if self._jobs[name].state in LOST and not job.edges[name].met:
                self._lack(job, self._jobs[name], now)
        self._decide(job, now)

    def feed(self, job: Job, result: Payload | None, now: float) -> None:
        """A job succeeded."""
        for edge in job.edges.values():
            edge.result = edge.loss = None
        for dependent, edge in self._dependents(job):
            if not edge.met:
                edge.met, edge.result = True, result
                dependent.changed = True
                self._decide(dependent, now)

    def lose(self, job: Job, now: float) -> None:
        """A job will not succeed: whoever needs that will not run, and those that wait for them."""
        for dependent, edge in self._dependents(job):
            if not edge.met:
                self._lack(dependent, job, now)

    def _lack(self, dependent: Job, job: Job, now: float) -> None:
        """One of those that a job waits for is lost."""
        if dependent.state is not JobState.WAITING:
            return
        if dependent.run_if == "succeeded":
            self._skip(dependent, now)
            return
        edge = dependent.edges[job.id]
        edge.met, edge.loss = True, job.state if job.state in LOST else JobState.UNKNOWN
        dependent.changed = True
        self._decide(dependent, now)

    def _skip(self, job: Job, now: float) -> None:
        job.move(Event.DEPENDENCY_FAILED, now)
        self.lose(job, now)

    def _decide(self, job: Job, now: float) -> None:
        """What becomes of one that waits, once all have ended that it waited for."""
        if job.state is not JobState.WAITING or job.pending:
            return
        if job.delegated_to is not None:
            result = job.edges[job.delegated_to].result
            job.move(Event.FORWARD, now)
            self.succeed(job, result, now)
        elif job.run_if == "failed" and not job.losses:
            self._skip(job, now)
        else:
            job.visible_at = max(now, job.eta or now)
            job.move(Event.DEPENDENCIES_MET, now)

    def restore(self, job: Job, now: float) -> None:
        """A dead job was replayed: whoever still waits waits for it again, and so may those that
        were skipped."""
        restored = [job]
        while restored:
            for dependent, edge in self._dependents(restored.pop()):
                if dependent.state is JobState.WAITING and edge.loss is not None:
                    edge.met, edge.loss = False, None
                    dependent.changed = True
                if dependent.state is not JobState.SKIPPED or self._is_hopeless(dependent):
                    continue
                dependent.finished_at = None
                dependent.move(Event.DEPENDENCY_REPLAYED, now)
                restored.append(dependent)

    # -- growing -------------------------------------------------------------------------------

    def join(self, job: Job, spawned: Collection[Job], now: float) -> None:
        """Whoever waits for a job waits for what it has spawned."""
        for dependent, edge in self._dependents(job):
            if dependent.state is not JobState.WAITING or edge.met:
                continue
            if dependent.delegated_to == job.id:
                self.join(dependent, spawned, now)
                continue
            new = [other.id for other in spawned if other.id not in dependent.edges]
            dependent.edges |= {name: Edge() for name in new}
            dependent.changed = True
            self._look(dependent, new, now)

    def delegate(self, job: Job, to: str, now: float) -> None:
        """Another one is to give a job's result."""
        job.edges, job.delegated_to, job.run_if = {to: Edge()}, to, "succeeded"
        job.move(Event.DELEGATE, now)
        if to in self._jobs:
            self.link([job], now)
        else:
            self._skip(job, now)

    def _dependents(self, job: Job) -> list[tuple[Job, Edge]]:
        others = self._jobs.values()
        return [(other, other.edges[job.id]) for other in others if job.id in other.edges]

    def _is_hopeless(self, job: Job) -> bool:
        """Whether something that a skipped job needs cannot come any more, or it was skipped
        because nothing was lost."""
        return job.run_if != "succeeded" or any(
            not edge.met and (name not in self._jobs or self._jobs[name].state in LOST)
            for name, edge in job.edges.items()
        )
