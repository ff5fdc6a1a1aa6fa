"""Enqueues jobs when they are due: one scheduler of a store at a time, whoever it is."""

from .book import Entry, Journal, Run
from .manage import ScheduleInfo, Schedules
from .runner import Scheduler
from .template import DUE_AT, SCHEDULE

__all__ = [
    "DUE_AT",
    "SCHEDULE",
    "Entry",
    "Journal",
    "Run",
    "ScheduleInfo",
    "Scheduler",
    "Schedules",
]
