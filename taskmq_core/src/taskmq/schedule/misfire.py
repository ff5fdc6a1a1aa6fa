"""Which runs of a schedule are to be enqueued now: a pure function."""

from __future__ import annotations

from collections import deque
from datetime import datetime, timedelta

from .definition import Schedule

__all__ = ["due_between", "runs_due"]

SKIPS_AFTER = 60.0
"""Seconds after which a run is late where late ones are skipped, unless the schedule says."""
WINDOWS = [timedelta(minutes=1) * 8**power for power in range(9)]
"""How far back the latest run is looked for: a minute, eight, an hour, …, 31 years."""


def runs_due(schedule: Schedule, after: datetime, now: datetime) -> list[datetime]:
    """The instants in ``(after, now]`` whose runs are to be enqueued, in order.

    Those that came in time are among them, too: of several, all with ``misfire="run_all"``, the
    latest otherwise.
    """
    if schedule.misfire == "run_all":
        found = list(due_between(schedule, after, now, schedule.most))
    else:
        found = list(due_between(schedule, after, now, 1))
    grace = schedule.grace
    if grace is None and schedule.misfire == "skip":
        grace = SKIPS_AFTER
    if grace is None:
        return found
    return [due for due in found if now - due <= timedelta(seconds=grace)]


def due_between(schedule: Schedule, after: datetime, now: datetime, most: int) -> deque[datetime]:
    """The latest ``most`` due instants in ``(after, now]``, in order. However many there were in
    a long time, only a part of it is looked at."""
    found: deque[datetime] = deque(maxlen=most)
    for window in WINDOWS:
        begin = max(after, now - window)
        found.clear()
        instant = schedule.next_after(begin)
        while instant is not None and instant <= now:
            found.append(instant)
            instant = schedule.next_after(instant)
        if len(found) == most or begin == after:
            break
    return found
