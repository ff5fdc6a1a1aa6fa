"""Who dies in which pool, in the midst of 400 short jobs: parent, child, nursery, everybody at
once. Nothing is lost, and nothing waits longer than the lease and a second."""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE

from taskmq import JobState
from taskmq.hooks import MOST_HELD

SLACK = float(os.environ.get("PROMISES_SLACK", "5"))
JOBS = 400
LEASE = 1.0

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds children in /proc")


def children(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, file.read_text().split())
    return found


def kill_parent(workers: list[Any]) -> None:
    workers[0].send(signal.SIGKILL)


def kill_child(workers: list[Any]) -> None:
    (nursery,) = children(workers[0].pid)
    os.kill(children(nursery)[0], signal.SIGKILL)


def kill_nursery(workers: list[Any]) -> None:
    (nursery,) = children(workers[0].pid)
    os.kill(nursery, signal.SIGKILL)


def kill_everybody(workers: list[Any]) -> None:
    for worker in workers:
        worker.send_to_all(signal.SIGKILL)


@pytest.mark.parametrize(
    ("pool", "kill"),
    [
        ("solo", kill_parent),
        ("asyncio", kill_parent),
        ("threads", kill_everybody),
        ("processes", kill_parent),
        ("processes", kill_child),
        ("processes", kill_nursery),
        ("processes", kill_everybody),
    ],
)
def test_whoever_is_killed_no_job_is_lost_or_stranded(
    fleet: Any, pool: str, kill: Callable[[list[Any]], None], measured: Callable[..., None]
) -> None:
    options = ("--lease", str(LEASE), "-P", pool, "-c", "1" if pool == "solo" else "4")
    begun = random.Random(f"{pool} {kill.__name__}").randrange(10, JOBS // 2)  # leave some to do
    workers = [fleet.start(*options) for _ in range(2)]
    jobs = fleet.task("record").submit_many([(number,) for number in range(JOBS)])
    while len(fleet.records()) < begun:
        assert all(worker.popen.poll() is None for worker in workers)
        time.sleep(0.001)
    kill(workers)
    killed_at = time.monotonic()
    if kill is kill_everybody:
        for worker in workers:
            assert worker.wait() == -signal.SIGKILL
        fleet.start(*options)
    served_at = max(killed_at + LEASE, time.monotonic())
    values = [job.get(PATIENCE) for job in jobs]

    runs = [number for number, _, _ in fleet.records()]
    last = max(at for _, _, at in fleet.records())
    longest = fleet.longest_wait(served_at)
    lost, repeated = JOBS - len(set(runs)), len(runs) - len(set(runs))
    measured(lost=lost, run_twice=repeated, last_after=last - served_at, longest_wait=longest)
    assert lost == 0
    assert values == list(range(JOBS))
    assert [job.state for job in jobs] == [JobState.SUCCEEDED] * JOBS
    assert repeated <= len(workers) * MOST_HELD
    assert longest <= 1.0 + SLACK
    if kill in (kill_child, kill_nursery):
        assert workers[0].popen.poll() is None
        assert fleet.submit("add", 1, 2).get(PATIENCE) == 3


@pytest.mark.parametrize("pool", ["solo", "asyncio", "processes"])
def test_a_frozen_worker_of_any_pool_is_superseded_and_settles_nothing(
    fleet: Any, pool: str, measured: Callable[..., None]
) -> None:
    """The parent alone is frozen. A child of it goes on, and nobody hears of what it did."""
    options = ("--lease", str(LEASE), "-P", pool, "-c", "1")
    frozen = fleet.start(*options)
    job = fleet.submit("hold", "a", 60.0)
    fleet.wait_until("a", "started")
    (first,) = fleet.pids("a", "started")
    fleet.start(*options)
    frozen.send(signal.SIGSTOP)
    stopped_at = time.monotonic()
    superseded = fleet.wait_until("a", "started", times=2) - stopped_at
    frozen.send(signal.SIGCONT)
    fleet.wait_until("a", "lost")
    assert fleet.pids("a", "lost") == [first]
    (second,) = set(fleet.pids("a", "started")) - {first}
    fleet.touch("a.go")
    assert job.get(PATIENCE) == second
    frozen.wait_for_log("Ack refused, its lease was lost")
    frozen.send(signal.SIGTERM)
    assert frozen.wait() == 0
    assert job.get(PATIENCE) == second
    measured(superseded_after=superseded)
    assert superseded < LEASE + 1.0 + SLACK


def test_a_frozen_child_costs_the_others_nothing_and_its_own_job_can_be_ended(fleet: Any) -> None:
    """The worker keeps the lease of a job that does not come on: it cannot tell it from a long
    one. A limit or a revoke ends it."""
    fleet.start("--lease", str(LEASE), "-P", "processes", "-c", "2")
    job = fleet.submit("hold", "a", 60.0)
    fleet.wait_until("a", "started")
    (child,) = fleet.pids("a", "started")
    os.kill(child, signal.SIGSTOP)
    others = [fleet.submit("add", 1, number) for number in range(50)]
    assert [each.get(PATIENCE) for each in others] == [1 + number for number in range(50)]
    assert job.state is JobState.RUNNING
    assert job.revoke(terminate=True)
    assert job.wait(PATIENCE) is JobState.REVOKED
    assert len(fleet.pids("a", "started")) == 1
