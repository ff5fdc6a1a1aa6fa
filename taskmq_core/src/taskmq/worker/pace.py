"""What a worker's own pacing depends on: waits, backoff and deadlines take real time and chance."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["REAL", "Pace"]


@dataclass(frozen=True, slots=True)
class Pace:
    """``monotonic`` in seconds; ``draw`` from 0 to 1. A simulation brings its own of both."""

    monotonic: Callable[[], float] = time.monotonic
    draw: Callable[[], float] = random.random


REAL = Pace()
