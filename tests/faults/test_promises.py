"""What is promised of workers, a test each, on every store. docs/explanation/promises.md has the
list and the figures; the promise about SIGKILL is in test_sigkill.py.

``PROMISES_SLACK=0`` holds them to the figures as promised: by default a machine with more to do
than processors may add two seconds. ``PROMISES_GRACE`` is the shutdown timeout, in seconds.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.waiting import PATIENCE

from taskmq import JobState

EVERY_STORE = True
BY_BROKER = (
    "test_a_job_of_six_lease_lengths_runs_once",
    "test_a_frozen_worker_is_superseded_and_settles_nothing",
    "test_a_killed_worker_s_neighbour_has_its_job_at_once",
)
SLACK = float(os.environ.get("PROMISES_SLACK", "2"))
GRACE = float(os.environ.get("PROMISES_GRACE", "2"))
LEASE = 1.0
SHORT_LEASE = ("--lease", str(LEASE))
LONG_LEASE = ("--lease", "60")
Measured = Callable[..., None]


def test_a_job_of_six_lease_lengths_runs_once(fleet: Any, measured: Measured) -> None:
    """In every pool; and there is somebody who would take it."""
    pools = ("solo", "threads", "processes", "asyncio")
    jobs = {}
    for pool in pools:
        fleet.start(*SHORT_LEASE, "-P", pool, "-c", "1", "-Q", pool)
        jobs[pool] = fleet.task("hold").submit(pool, 6 * LEASE, queue=pool)
    for pool in pools:
        fleet.wait_until(pool, "started")
    fleet.start(*SHORT_LEASE, "-c", "4", "-Q", ",".join(pools))
    for pool, job in jobs.items():
        assert job.get(PATIENCE) in fleet.pids(pool, "started")
        assert len(fleet.pids(pool, "started")) == 1
        assert (job.info["deliveries"], job.info["reclaims"]) == (1, 0)
    measured(runs=sum(len(fleet.pids(pool, "started")) for pool in pools), jobs=len(pools))


def test_a_delay_longer_than_the_lease_runs_once(fleet: Any, measured: Measured) -> None:
    """A job for later, and one whose second attempt is for later."""
    delay = 2.5 * LEASE
    for _ in range(2):
        fleet.start(*SHORT_LEASE, "-c", "2")
    submitted_at = time.monotonic()
    later = fleet.task("hold").submit("later", 0.0, eta=delay)
    again = fleet.submit("retry_once", "again", delay)
    fleet.wait_until("again", "attempt-1")
    late = fleet.wait_until("later", "started") - submitted_at - delay
    assert again.get(PATIENCE) == 2
    late_again = again.record.finished_at - again.record.enqueued_at - delay
    assert later.wait(PATIENCE) is JobState.SUCCEEDED
    assert (later.info["deliveries"], later.info["reclaims"]) == (1, 0)
    assert (again.info["attempt"], again.info["reclaims"]) == (2, 0)
    for name, what in (("later", "started"), ("again", "attempt-1"), ("again", "attempt-2")):
        assert len(fleet.pids(name, what)) == 1
    measured(late=late, late_again=late_again)
    assert -0.05 < late < 1.0 + SLACK
    assert -0.05 < late_again < 1.0 + SLACK


@pytest.mark.parametrize("pool", ["solo", "threads", "processes", "asyncio"])
def test_a_task_that_kills_its_process_stops_at_exactly_its_ceiling(
    fleet: Any, pool: str, measured: Measured
) -> None:
    ceiling = fleet.task("die").policy.max_deliveries
    options = (*SHORT_LEASE, "-P", pool, "-c", "1")
    job = fleet.submit("die", "d")
    if pool != "processes":  # there, only a child dies
        for _ in range(ceiling):
            assert fleet.start(*options).wait() == -signal.SIGKILL
    fleet.start(*options)
    assert job.wait(PATIENCE) is JobState.FAILED
    assert fleet.submit("add", 1, 2).get(PATIENCE) == 3
    assert len(fleet.pids("d", "started")) == ceiling
    assert job.info["reclaims"] == ceiling
    (letter,) = fleet.app.dead_letters.list()
    assert (letter.id, letter.dead_reason) == (job.id, "worker_lost")
    measured(runs=len(fleet.pids("d", "started")), ceiling=ceiling)


def test_a_rate_limited_task_ahead_of_a_normal_one_does_not_hold_it_up(
    fleet: Any, measured: Measured
) -> None:
    fleet.start(*LONG_LEASE, "-c", "1")
    limited = fleet.task("limited").submit_many([(number,) for number in range(500)], priority=5)
    assert limited[0].get(PATIENCE) == 0
    submitted_at = time.monotonic()
    normal = fleet.submit("hold", "normal", 0.0)
    waited = fleet.wait_until("normal", "started") - submitted_at
    assert normal.wait(PATIENCE) is JobState.SUCCEEDED
    assert limited[1].state is JobState.QUEUED
    assert limited[1].info["deliveries"] == 0
    measured(waited=waited)
    assert waited < 1.0 + SLACK


def test_three_short_jobs_behind_a_long_one_run_at_once_on_an_idle_worker(
    fleet: Any, measured: Measured
) -> None:
    """By default, and although the busy worker has reserved all four: it took them for short."""
    busy = fleet.start(*LONG_LEASE, "-c", "1")
    for job in fleet.task("add").submit_many([(1, 2)] * 300):
        job.wait(PATIENCE)
    idle = fleet.start(*LONG_LEASE, "-c", "1")
    idle.send(signal.SIGSTOP)
    hold, add = fleet.task("hold"), fleet.task("add")
    calls = [hold.call("long", 60.0), *(add.call(1, number) for number in range(3))]
    long, *short = fleet.app.submit_many(calls)
    fleet.wait_until("long", "started")
    idle.send(signal.SIGCONT)
    woken_at = time.monotonic()
    assert [job.get(PATIENCE) for job in short] == [1, 2, 3]
    took = time.monotonic() - woken_at
    assert long.state is JobState.RUNNING
    assert fleet.pids("long", "started") == [busy.pid]
    measured(took=took, short_jobs_run=len(short))
    assert took < 1.0 + SLACK


def test_revoke_with_no_worker_alive_holds_for_the_next_worker(fleet: Any) -> None:
    one, *others = [fleet.submit("hold", f"r{number}", 0.0) for number in range(4)]
    assert fleet.app.transport.workers() == []
    assert one.revoke()
    assert fleet.app.revoke(task="fleet_app.hold") == len(others)
    fleet.start(*LONG_LEASE)
    assert fleet.submit("add", 1, 2).get(PATIENCE) == 3
    for job in (one, *others):
        assert (job.state, job.info["deliveries"]) == (JobState.REVOKED, 0)
    assert fleet.pids("*", "started") == []


def test_a_paused_queue_waits_for_a_new_worker_too_until_it_is_resumed(
    fleet: Any, measured: Measured
) -> None:
    fleet.app.pause("paused", reason="the provider is down")
    jobs = [fleet.task("add").submit(1, number, queue="paused") for number in range(3)]
    fleet.start(*LONG_LEASE, "-Q", "paused,default")
    assert fleet.submit("add", 1, 2).get(PATIENCE) == 3
    assert [(job.state, job.info["deliveries"]) for job in jobs] == [(JobState.QUEUED, 0)] * 3
    fleet.app.resume("paused")
    resumed_at = time.monotonic()
    assert [job.get(PATIENCE) for job in jobs] == [1, 2, 3]
    took = time.monotonic() - resumed_at
    measured(took=took)
    assert took < 1.0 + SLACK


@pytest.mark.parametrize("pool", ["threads", "processes", "asyncio"])
def test_a_worker_is_gone_when_the_grace_is_over_and_long_jobs_run_elsewhere_at_once(
    fleet: Any, pool: str, measured: Measured
) -> None:
    options = (*LONG_LEASE, "-P", pool, "-c", "2", "--shutdown-timeout", str(GRACE))
    first = fleet.start(*options)
    long, short = fleet.submit("hold", "long", 60.0), fleet.submit("hold", "short", 60.0)
    fleet.wait_until("long", "started")
    fleet.wait_until("short", "started")
    (here,) = fleet.pids("long", "started")
    fleet.start(*options)
    first.send(signal.SIGTERM)
    stopped_at = time.monotonic()
    first.wait_for_log(f"stops; waits up to {GRACE:g} s for 2 jobs: fleet_app.hold")
    fleet.touch("short.go")
    assert first.wait() == 0
    gone_at = time.monotonic()
    started_again = fleet.wait_until("long", "started", times=2) - gone_at
    fleet.touch("long.go")
    assert short.get(PATIENCE) in fleet.pids("short", "ended")
    assert len(fleet.pids("short", "started")) == 1
    assert long.get(PATIENCE) != here
    assert (long.info["deliveries"], long.info["reclaims"]) == (1, 0)
    assert "1 cut short, to run again" in first.err or "gave 1 running job back" in first.err
    measured(grace=GRACE, gone_after=gone_at - stopped_at, started_again_after=started_again)
    assert gone_at - stopped_at <= GRACE + SLACK
    assert started_again < 1.0 + SLACK


def test_200_coroutines_that_sleep_for_a_second_take_less_than_three(
    fleet: Any, measured: Measured
) -> None:
    fleet.start(*LONG_LEASE, "-P", "asyncio", "-c", "200", app="coroutines")
    submitted_at = time.monotonic()
    naps = fleet.task("nap").submit_many([(1.0,)] * 200)
    took = max(nap.get(PATIENCE) for nap in naps) - submitted_at
    measured(took=took)
    assert took < 3.0 + SLACK


def test_a_frozen_worker_is_superseded_and_settles_nothing(fleet: Any, measured: Measured) -> None:
    frozen = fleet.start(*SHORT_LEASE, "-c", "1")
    job = fleet.submit("hold", "a", 60.0)
    fleet.wait_until("a", "started")
    neighbour = fleet.start(*SHORT_LEASE, "-c", "1")
    frozen.send(signal.SIGSTOP)
    stopped_at = time.monotonic()
    superseded = fleet.wait_until("a", "started", times=2) - stopped_at
    frozen.send(signal.SIGCONT)
    fleet.wait_until("a", "lost")
    assert fleet.pids("a", "lost") == [frozen.pid]
    fleet.touch("a.go")
    assert job.get(PATIENCE) == neighbour.pid
    frozen.wait_for_log("Ack refused, its lease was lost")
    frozen.send(signal.SIGTERM)
    assert frozen.wait() == 0
    assert job.get(PATIENCE) == neighbour.pid
    measured(superseded_after=superseded)
    assert superseded < LEASE + 1.0 + SLACK


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere jobs wait for the lease")
def test_a_killed_worker_s_neighbour_has_its_job_at_once(fleet: Any, measured: Measured) -> None:
    victim = fleet.start(*LONG_LEASE, "-c", "1")
    job = fleet.submit("hold", "a", 60.0)
    fleet.wait_until("a", "started")
    neighbour = fleet.start(*LONG_LEASE, "-c", "1")
    killed_at = time.monotonic()
    victim.send(signal.SIGKILL)  # nobody waits for it: it stays a zombie
    took = fleet.wait_until("a", "started", times=2) - killed_at
    fleet.touch("a.go")
    assert job.get(PATIENCE) == neighbour.pid
    assert job.info["reclaims"] == 1
    assert f"(pid {victim.pid}) is gone: took back 1 jobs" in neighbour.err
    assert [entry.pid for entry in fleet.app.transport.workers()] == [neighbour.pid]
    measured(took=took)
    assert took < 1.0 + SLACK
