"""Where the loop is, so that others can tell whether it is stuck."""

from __future__ import annotations

import time
from enum import Enum

__all__ = ["STUCK_AFTER", "Place", "Pulse"]

STUCK_AFTER = 30.0
"""Seconds that one step of the loop may take, by default. It takes milliseconds."""
LONGEST_WAIT = 60.0
"""No wait of the loop is longer than that between two maintenances, which is ten seconds."""
LONGEST_CALL = 300.0
"""A store that does not answer is no reason to end a worker. But its client has time limits, and
one that has not come back after so long never will."""


class Place(Enum):
    WORKING = "working"
    WAITING = "waiting"
    STORE = "in a call to the store"
    JOB = "running a job"  # in the loop's own thread


class Pulse:
    """The loop says where it is, any thread may ask how long it has been there."""

    def __init__(self) -> None:
        self._last = (Place.WORKING, time.monotonic())  # one value: read without a lock

    def at(self, place: Place) -> None:
        """From now on."""
        self._last = (place, time.monotonic())

    def stuck(self, after: float = STUCK_AFTER) -> str:
        """What the loop is stuck in, in words; empty while it moves. A job may take any time."""
        place, since = self._last
        longest = {Place.WORKING: after, Place.WAITING: LONGEST_WAIT, Place.STORE: LONGEST_CALL}
        for_seconds = time.monotonic() - since
        if for_seconds <= longest.get(place, float("inf")):
            return ""
        return f"the loop has been {place.value} for {for_seconds:.0f} s"
