"""When something is due: cron, intervals, single instants; and what is run then."""

from .definition import Misfire, Overlap, Schedule, at, cron, every
from .misfire import runs_due
from .rules import At, Cron, Every, Rule

__all__ = [
    "At",
    "Cron",
    "Every",
    "Misfire",
    "Overlap",
    "Rule",
    "Schedule",
    "at",
    "cron",
    "every",
    "runs_due",
]
