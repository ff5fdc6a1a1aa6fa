"""The machine's clock."""

from __future__ import annotations

import time

from taskmq.clock import Clock, SystemClock


def test_now_is_the_time_of_day() -> None:
    clock: Clock = SystemClock()
    before = time.time()
    assert before <= clock.now() <= time.time()


def test_monotonic_never_goes_back() -> None:
    clock: Clock = SystemClock()
    readings = [clock.monotonic() for _ in range(1_000)]
    assert readings == sorted(readings)
