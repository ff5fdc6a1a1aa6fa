"""Flow control, seen from a running worker."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE

from taskmq import App, Config, JobState, QueueConfig, Rate, current_task
from taskmq.testing.faults import FailBefore, FaultPlan, FaultyTransport

RunWorker = Callable[..., Any]


@pytest.fixture(params=["memory://", "sqlite:///{folder}/jobs.db"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(request.param).format(folder=tmp_path)


def test_a_normal_job_behind_rate_limited_ones_starts_within_a_second(
    url: str, run_worker: RunWorker
) -> None:
    app = App(Config(transport=url, concurrency=2))
    started = threading.Event()
    limited = app.task(name="limited", rate_limit="1/h")(lambda n: n)
    normal = app.task(name="normal")(started.set)
    jobs = limited.submit_many([(n,) for n in range(5_000)], priority=5)
    submitted_at = time.monotonic()
    normal.delay()
    run_worker(app)
    assert started.wait(PATIENCE)
    assert time.monotonic() - submitted_at < 1.0
    assert jobs[0].wait(PATIENCE) is JobState.SUCCEEDED
    assert jobs[1].state is JobState.QUEUED
    app.close()


def test_a_rate_is_kept_and_used(url: str, run_worker: RunWorker) -> None:
    app = App(Config(transport=url, concurrency=2))
    starts: list[float] = []
    tick = app.task(name="tick", rate_limit="20/s")(lambda: starts.append(time.time()))
    run_worker(app)
    jobs = [tick.delay() for _ in range(12)]
    for job in jobs:
        job.wait(PATIENCE)
    # Two may come at once: a burst is what comes in a tenth of a second.
    for first, later in zip(starts, starts[4:], strict=False):
        assert later - first > 0.05
    assert starts[-1] - starts[0] < 3.0
    app.close()


class Hall:
    """Jobs that stay until they are let go; how many are inside, at most, by queue."""

    def __init__(self, app: App) -> None:
        self.gate = threading.Event()
        self.inside = 0
        self.most = 0
        self.changed = threading.Condition()
        self.stay = app.task(name="stay", queue="slow")(self._stay)

    def _stay(self) -> None:
        with self.changed:
            self.inside += 1
            self.most = max(self.most, self.inside)
            self.changed.notify_all()
        assert self.gate.wait(PATIENCE)
        with self.changed:
            self.inside -= 1

    def wait_until(self, inside: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: self.inside == inside, PATIENCE)


QUOTA = {"slow": QueueConfig(max_running=2), "quick": QueueConfig()}


def test_a_queue_with_a_quota_leaves_slots_to_the_others(url: str, run_worker: RunWorker) -> None:
    app = App(Config(transport=url, concurrency=3, queues=QUOTA))
    hall = Hall(app)
    quick = app.task(name="quick", queue="quick")(int)
    slow = hall.stay.submit_many([() for _ in range(6)], priority=9)
    run_worker(app)
    hall.wait_until(2)
    for one in quick.submit_many([(n,) for n in range(20)]):
        assert one.wait(PATIENCE) is JobState.SUCCEEDED
    hall.gate.set()
    for job in slow:
        assert job.wait(PATIENCE) is JobState.SUCCEEDED
    assert hall.most == 2
    app.close()


def test_a_store_that_does_not_answer_costs_no_quota(run_worker: RunWorker) -> None:
    app = App(Config(queues=QUOTA, concurrency=3))
    plan = FaultPlan(FailBefore("exchange", nth=2), FailBefore("exchange", nth=4))
    app = App(app.config, transport=FaultyTransport(app.transport, plan))
    hall = Hall(app)
    hall.gate.set()
    jobs = hall.stay.submit_many([() for _ in range(8)])
    run_worker(app)
    for job in jobs:
        assert job.wait(PATIENCE) is JobState.SUCCEEDED


# -- rates that each worker keeps by itself ------------------------------------------------------


def test_a_worker_keeps_its_own_rate_and_uses_it(url: str, run_worker: RunWorker) -> None:
    """Each of two starts 20 a second, neither delivery nor slot is spent on those that wait."""
    app = App(Config(transport=url, concurrency=2))
    starts: dict[str, list[float]] = {"one": [], "two": []}

    @app.task(name="tick", rate_limit=Rate(20, burst=1), rate_scope="worker")
    def tick() -> None:
        starts[current_task().worker].append(time.monotonic())

    jobs = tick.submit_many([()] * 30)
    for name in starts:
        run_worker(app, name=name)
    for job in jobs:
        assert job.wait(PATIENCE) is JobState.SUCCEEDED
        assert (job.info["deliveries"], job.info["attempt"]) == (1, 1)
    for mine in starts.values():
        for first, later in zip(mine, mine[8:], strict=False):  # eight intervals apart
            assert later - first > 0.2
    every = sorted(starts["one"] + starts["two"])
    assert len(every) == 30
    assert every[-1] - every[0] < 5.0
    app.close()


def test_what_is_behind_many_that_are_put_off_starts_soon(url: str, run_worker: RunWorker) -> None:
    app = App(Config(transport=url, concurrency=2))
    started = threading.Event()
    limited = app.task(name="limited", rate_limit="1/h", rate_scope="worker")(lambda n: n)
    normal = app.task(name="normal")(started.set)
    jobs = limited.submit_many([(n,) for n in range(5_000)], priority=5)
    submitted_at = time.monotonic()
    normal.delay()
    run_worker(app)
    assert started.wait(PATIENCE)
    print(f"started after {time.monotonic() - submitted_at:.2f} s")
    assert jobs[0].wait(PATIENCE) is JobState.SUCCEEDED
    assert jobs[1].state is JobState.QUEUED
    app.close()
