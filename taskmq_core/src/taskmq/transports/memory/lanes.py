"""Where the jobs of one queue stand, by what they wait for."""

from __future__ import annotations

from taskmq.states import JobState

from .job import Job
from .ordered import Ordered

__all__ = ["Lanes"]

READY_STATES = frozenset({JobState.QUEUED, JobState.RETRYING})
UNSTARTED = READY_STATES | {JobState.WAITING}


class Lanes:
    """The index of one queue. Every job that is unfinished or dead is in exactly one lane, and in
    ``expiring`` besides if it can expire."""

    def __init__(self) -> None:
        self.ready: dict[int, Ordered[float]] = {}  # by priority, in store order
        self.delayed = Ordered[tuple[float, float]]()  # by visible_at, in store order
        self.held = Ordered[float]()  # behind a gate
        self.leased = Ordered[float]()  # by lease_until
        self.waiting = Ordered[float]()
        self.dead = Ordered[float]()
        self.expiring = Ordered[float]()  # by expires_at

    def place(self, job: Job, now: float) -> None:
        """Put a job where its state and its time say."""
        if job.held:
            self.held.put(job.id, job.sequence)
        elif job.state in READY_STATES:
            if job.visible_at <= now:
                line = self.ready.get(job.priority)
                if line is None:
                    line = self.ready[job.priority] = Ordered[float]()
                line.put(job.id, job.place)
            else:
                self.delayed.put(job.id, (job.visible_at, job.place))
        elif job.state is JobState.RUNNING:
            self.leased.put(job.id, job.lease_until or now)
        elif job.state is JobState.WAITING:
            self.waiting.put(job.id, job.sequence)
        elif job.state is JobState.FAILED:
            self.dead.put(job.id, job.sequence)
        if job.expires_at is not None and job.state in UNSTARTED:
            self.expiring.put(job.id, job.expires_at)

    def remove(self, job: Job) -> None:
        """Take a job out of every lane. Its queue and priority must still be what they were."""
        if job.priority in self.ready:
            self.ready[job.priority].discard(job.id)
        for lane in (
            self.delayed,
            self.held,
            self.leased,
            self.waiting,
            self.dead,
            self.expiring,
        ):
            lane.discard(job.id)

    def top_priority(self) -> int | None:
        """The highest priority with a ready job."""
        return max((priority for priority, lane in self.ready.items() if lane), default=None)

    def next_due_at(self) -> float | None:
        """The earliest future visibility or lease end."""
        delayed, leased = self.delayed.first(), self.leased.first()
        instants = (delayed[0] if delayed else None, leased)
        return min((at for at in instants if at is not None), default=None)
