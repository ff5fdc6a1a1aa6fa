"""What happened, line by line, so that a person can follow how it came to a violation."""

from __future__ import annotations

from dataclasses import dataclass

from taskmq.clock import Clock

__all__ = ["Journal", "Line"]


@dataclass(frozen=True, slots=True)
class Line:
    """``at`` is seconds since the start, ``depth`` how many tasks were running around it."""

    step: int
    at: float
    depth: int
    actor: str
    text: str

    def __str__(self) -> str:
        return f"{self.step:>5} {self.at:>10.2f}s  {'  ' * self.depth}{self.actor}: {self.text}"


class Journal:
    """Collects lines. ``step`` and ``depth`` are set by the simulation as it goes on."""

    def __init__(self, clock: Clock) -> None:
        self.lines: list[Line] = []
        self.step = 0
        self.depth = 0
        self._clock = clock
        self._began = clock.now()

    def add(self, actor: str, text: str) -> None:
        at = self._clock.now() - self._began
        self.lines.append(Line(self.step, at, self.depth, actor, text))

    def about(self, job_id: str) -> list[Line]:
        """The lines that name a job."""
        return [line for line in self.lines if job_id in line.text.replace(",", " ").split()]
