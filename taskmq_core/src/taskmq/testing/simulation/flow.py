"""What keeps jobs that are due from being delivered, and in which order the others come.

Limits, pauses and turns, from the words of the port alone: every question goes over all jobs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from taskmq.limits import Fair, Limit

from .job import Job, Turn

__all__ = ["Flow"]

UNIT = 1 << 20
"""The length of a turn of weight 1. A number that stores may choose; it decides ties alone."""
NOBODY = Fair("")

Line = tuple[str, int]


class Flow:
    """Of a store with these jobs."""

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._jobs = jobs
        self.paused: set[str] = set()
        self._next: dict[str, float] = {}
        """By rate: when the next job would be due if all came evenly spaced."""
        self._present: dict[Line, int] = {}
        self._served: dict[tuple[Line, str], int] = {}

    # -- limits --------------------------------------------------------------------------------

    def refusing(self, job: Job, now: float) -> Limit | None:
        """The first of its limits that keeps it from running now."""
        return next((limit for limit in job.envelope.limits if now < self.opens(limit)), None)

    def opens(self, limit: Limit) -> float:
        """From when on it lets a job pass: at any time, never by itself, or at an instant."""
        if limit.kind == "concurrency":
            return -math.inf if self._running(limit) < limit.amount else math.inf
        return _early(limit, self._next.get(limit.key, -math.inf))

    def opens_for(self, job: Job) -> float:
        """From when on all its limits let it pass."""
        return max(map(self.opens, job.envelope.limits), default=-math.inf)

    def _running(self, limit: Limit) -> int:
        running = (job for job in self._jobs.values() if job.is_running)
        return sum(limit.key in _concurrency_keys(job) for job in running)

    def refund(self, job: Job) -> None:
        """It was let pass, and has not started."""
        for limit in job.envelope.limits:
            if limit.kind == "rate":
                self._next[limit.key] -= limit.per / limit.amount

    # -- turns ---------------------------------------------------------------------------------

    def enter(self, job: Job) -> None:
        """A new job gets its turn, in a line that has turns."""
        line, fair = job.line, job.envelope.fair
        if fair is not None:
            self._present.setdefault(line, UNIT)
        if line not in self._present:
            return
        key = (fair or NOBODY).key
        turns = [each.turn for each in self._jobs.values() if each.line == line]
        before = [turn.end for turn in turns if turn is not None and turn.key == key]
        rank = max([self._present[line], self._served.get((line, key), 0), *before])
        job.turn = Turn(rank, rank + max(1, round(UNIT / (fair or NOBODY).weight)), key)

    def forfeit(self, job: Job) -> None:
        """It will not run, and has not: its key has nothing to pay for."""
        if job.turn is not None:
            job.turn = Turn(job.turn.rank, job.turn.end, None)

    # -- both ----------------------------------------------------------------------------------

    def deliver(self, job: Job, now: float) -> None:
        """A job passes its limits and takes its turn."""
        for limit in job.envelope.limits:
            if limit.kind == "rate":
                due = max(now, self._next.get(limit.key, now))
                self._next[limit.key] = due + limit.per / limit.amount
        turn, line = job.turn, job.line
        if turn is not None:
            self._present[line] = max(self._present[line], turn.rank)
            if turn.key is not None:
                place = line, turn.key
                self._served[place] = max(turn.end, self._served.get(place, 0))


def _early(limit: Limit, until: float) -> float:
    return until - (limit.burst - 1) * (limit.per / limit.amount)


def _concurrency_keys(job: Job) -> Collection[str]:
    return [limit.key for limit in job.envelope.limits if limit.kind == "concurrency"]
