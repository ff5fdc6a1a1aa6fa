"""What came out of a simulation, for people."""

from __future__ import annotations

from dataclasses import dataclass

from .journal import Journal
from .rules import Violation
from .schedule import Schedule

__all__ = ["Report"]

LAST_LINES = 25
LINES_ABOUT_A_JOB = 40


@dataclass(frozen=True)
class Report:
    """``str()`` of it is one line, or, if something was wrong, the story and how to replay it."""

    schedule: Schedule
    violations: tuple[Violation, ...]
    journal: Journal
    jobs: int
    runs: int
    stale_starts: int
    crashes: int
    faults: int

    @property
    def seed(self) -> int:
        return self.schedule.seed

    @property
    def steps(self) -> int:
        return len(self.schedule.moves)

    @property
    def transport(self) -> str:
        return self.schedule.transport

    @property
    def replay(self) -> str:
        """How to run it again: a command, or a call where the transport was given as a function."""
        if self.transport.startswith("<"):
            return f"replay(Schedule.load({self.schedule.dump()!r}), {self.transport})"
        return f"python -m taskmq.testing.simulation --replay '{self.schedule.dump()}'"

    def __str__(self) -> str:
        head = (
            f"seed {self.seed} on {self.transport}: {self.steps} steps, {self.jobs} jobs, "
            f"{self.runs} runs, {self.crashes} crashes, {self.faults} faults"
        )
        if not self.violations:
            return f"{head}: nothing wrong"
        first = self.violations[0]
        parts = [f"{head}: VIOLATION", str(first)]
        if first.job_id is not None:
            about = self.journal.about(first.job_id)[-LINES_ABOUT_A_JOB:]
            parts += [f"\nwhat happened to {first.job_id}:", *map(str, about)]
        parts += ["\nthe last steps:", *map(str, self.journal.lines[-LAST_LINES:])]
        parts += [f"\nreplay: {self.replay}"]
        return "\n".join(parts)
