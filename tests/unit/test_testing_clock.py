"""The clock that stands still."""

from __future__ import annotations

import threading

import pytest

from taskmq.clock import Clock
from taskmq.testing import FakeClock


def test_stands_still() -> None:
    clock: Clock = FakeClock(100.0)
    assert [clock.now(), clock.now()] == [100.0, 100.0]
    assert clock.monotonic() == clock.monotonic()


def test_advance_moves_both_hands() -> None:
    clock = FakeClock(100.0)
    before = clock.monotonic()
    clock.advance(2.5)
    assert clock.now() == 102.5
    assert clock.monotonic() - before == 2.5


def test_time_does_not_go_back() -> None:
    clock = FakeClock(100.0)
    with pytest.raises(ValueError, match=r"set\(\) moves the wall clock"):
        clock.advance(-1)
    assert clock.now() == 100.0


def test_set_moves_the_wall_clock_alone_and_may_go_back() -> None:
    clock = FakeClock(100.0)
    before = clock.monotonic()
    clock.set(40.0)
    assert clock.now() == 40.0
    assert clock.monotonic() == before


def test_starts_at_a_plausible_time() -> None:
    assert FakeClock().now() > 1_600_000_000


def test_no_advance_is_lost_between_threads() -> None:
    clock = FakeClock(0.0)

    def advance() -> None:
        for _ in range(1_000):
            clock.advance(1.0)

    threads = [threading.Thread(target=advance) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (clock.now(), clock.monotonic()) == (4_000.0, 4_000.0)
