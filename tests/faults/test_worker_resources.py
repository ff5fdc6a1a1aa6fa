"""A worker without file handles, without the store's lock, without disk: it stays."""

import resource
import sqlite3
import sys
import time
from typing import Any

import pytest

DEADLINE = 20.0


def test_a_task_that_takes_every_file_handle(fleet: Any) -> None:
    worker = fleet.start("-c", "2", "--lease", "30")
    fleet.submit("exhaust", "e")
    fleet.wait_until("e", "started")
    jobs = [fleet.submit("add", 1, number) for number in range(20)]
    time.sleep(0.5)
    assert worker.popen.poll() is None
    fleet.touch("e.go")
    assert [job.get(DEADLINE) for job in jobs] == [1 + number for number in range(20)]
    assert worker.popen.poll() is None


def test_a_database_that_is_locked_for_long(fleet: Any) -> None:
    """Ten times as long as the worker's patience with a lock."""
    worker = fleet.start("-c", "2", "--lease", "30")
    job = fleet.submit("hold", "a", 0.3)
    waiting = [fleet.submit("add", 1, number) for number in range(20)]
    fleet.wait_until("a", "started")
    holder = sqlite3.connect(fleet.folder / "jobs.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    fleet.wait_until("a", "ended")
    worker.wait_for_log("the store does not answer")
    time.sleep(2.0)
    holder.execute("ROLLBACK")
    holder.close()
    assert job.get(DEADLINE) == worker.pid
    assert [each.get(DEADLINE) for each in waiting] == [1 + number for number in range(20)]
    assert len(fleet.pids("a", "started")) == 1


@pytest.mark.skipif(sys.platform != "linux", reason="limits another process")
def test_a_disk_that_is_full(fleet: Any) -> None:
    worker = fleet.start("-c", "2", "--lease", "30")
    job = fleet.submit("hold", "a", 60)
    fleet.wait_until("a", "started")
    unlimited = resource.RLIM_INFINITY
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (4096, unlimited))
    waiting = [fleet.submit("add", 1, number) for number in range(20)]
    fleet.touch("a.go")
    worker.wait_for_log("the store does not answer")
    time.sleep(0.5)
    assert worker.popen.poll() is None
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
    assert job.get(DEADLINE) == worker.pid
    assert [each.get(DEADLINE) for each in waiting] == [1 + number for number in range(20)]
