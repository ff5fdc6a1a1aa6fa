"""Schedulers that die at any step, on a real file: every tick is one job.

SCHEDULE_TICKS=1000 pytest tests/integration/test_schedule_crashes.py
"""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from taskmq import App, Config
from taskmq.envelope import load
from taskmq.plugins import open_transport
from taskmq.records import JobFilter
from taskmq.schedule import every
from taskmq.scheduler import DUE_AT, Scheduler
from taskmq.testing import FakeClock, TransportWrapper

NOW = 1_700_000_040.0
TICKS = int(os.environ.get("SCHEDULE_TICKS", "250"))
R = TypeVar("R")


class Died(BaseException):
    """In place of a SIGKILL."""


class Mortal(TransportWrapper):
    """Whoever uses it may die before or after any step; what the store has, it has."""

    dies: Callable[[], bool] = staticmethod(lambda: False)
    died_in: list[str]

    def around(self, operation: str, call: Callable[[], R]) -> R:
        self.die(f"before {operation}")
        result = call()
        self.die(f"after {operation}")
        return result

    def die(self, place: str) -> None:
        if self.dies():
            self.died_in.append(place)
            raise Died


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_every_tick_is_one_job_whoever_dies_where(kind: str, tmp_path: Path) -> None:
    """Two schedulers; a dead one is followed by the other, or by itself, once its lease is over."""
    draw, clock = random.Random(7), FakeClock(NOW)
    url = "memory://" if kind == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    store = Mortal(open_transport(url, clock=clock))
    store.died_in = []
    app = App(Config(), transport=store, clock=clock)
    app.task(name="note")(lambda: None)
    app.schedule(every("note", seconds=60, misfire="run_all"))
    schedulers = [Scheduler(app, program="p") for _ in range(2)]
    for scheduler in schedulers:
        scheduler.step()

    for _ in range(TICKS * 6):
        clock.advance(10)
        for number in draw.sample(range(2), 2):
            store.dies = lambda: draw.random() < 0.05
            try:
                schedulers[number].step()
            except Died:
                schedulers[number] = Scheduler(app, program="p")
    store.dies = lambda: False
    for _ in range(3):
        clock.advance(10)
        schedulers[0].step()

    jobs = store.find(JobFilter(limit=100_000))
    due = [load(job.envelope).headers[DUE_AT] for job in jobs]
    last = int(clock.now() - NOW) // 60
    assert sorted(due) == [NOW + 60 * n for n in range(1, last + 1)]
    assert {"after acquire", "before enqueue", "after enqueue", "after write"} <= set(store.died_in)
    assert len(store.died_in) > TICKS / 5
    store.close()
