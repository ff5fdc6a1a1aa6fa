"""Random but repeatable schedules over the real worker and a real store, checked at every step.

>>> report = simulate(seed=7, steps=400, transport="memory")
>>> assert not report.violations, report

``docs/explanation/simulation.md`` says what is simulated, what is checked, and what cannot be seen
in this way.
"""

from __future__ import annotations

from .report import Report
from .rules import RULES, Violation
from .run import replay, simulate
from .schedule import Move, Schedule
from .shrink import shrink

__all__ = [
    "RULES",
    "Move",
    "Report",
    "Schedule",
    "Violation",
    "replay",
    "shrink",
    "simulate",
]
