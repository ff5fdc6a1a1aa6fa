"""A worker without file handles, without the store's lock, without disk: it stays, in every pool,
and goes on within seconds when it has again what it lacked.

``LOCKED_SECONDS=30 pytest tests/faults/test_worker_resources.py -s`` locks the database for longer.
"""

import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE

LOCKED = float(os.environ.get("LOCKED_SECONDS", "2"))
SLACK = float(os.environ.get("PROMISES_SLACK", "5"))
BACKOFF = 5.0
"""Seconds between two tries at a store that does not answer, at most."""
LEASE = ("--lease", "30")
POOLS = ("threads", "processes", "asyncio")
Measured = Callable[..., None]

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="limits another process")


def handles(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def limit_handles(pid: int, count: int) -> None:
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (count, hard))


@pytest.mark.parametrize("pool", POOLS)
def test_a_task_that_takes_every_file_handle(fleet: Any, pool: str) -> None:
    worker = fleet.start(*LEASE, "-P", pool, "-c", "2")
    fleet.submit("exhaust", "e")
    fleet.wait_until("e", "started")
    jobs = [fleet.submit("add", 1, number) for number in range(20)]
    time.sleep(0.5)
    assert worker.popen.poll() is None
    fleet.touch("e.go")
    assert [job.get(PATIENCE) for job in jobs] == [1 + number for number in range(20)]
    assert worker.popen.poll() is None


@linux_only
@pytest.mark.parametrize("pool", POOLS)
def test_a_worker_that_may_not_open_another_file(fleet: Any, pool: str, measured: Measured) -> None:
    """And has to: for a new child, where there are children."""
    worker = fleet.start(*LEASE, "-P", pool, "-c", "2")
    job = fleet.submit("hold", "a", 60.0)
    fleet.wait_until("a", "started")
    enough = resource.prlimit(worker.pid, resource.RLIMIT_NOFILE)[0]
    limit_handles(worker.pid, handles(worker.pid))
    if pool == "processes":
        os.kill(fleet.pids("a", "started")[0], signal.SIGKILL)
    jobs = [fleet.submit("add", 1, number) for number in range(20)]
    time.sleep(1.0)
    assert worker.popen.poll() is None
    limit_handles(worker.pid, enough)
    lifted_at = time.monotonic()
    assert [each.get(PATIENCE) for each in jobs] == [1 + number for number in range(20)]
    fleet.touch("a.go")
    assert job.get(PATIENCE) > 0
    if pool == "processes":
        assert len(fleet.pids("a", "started")) == 2
    took = time.monotonic() - lifted_at
    assert worker.popen.poll() is None
    measured(went_on_after=took)
    assert took < BACKOFF + 1.0 + SLACK


@pytest.mark.parametrize("pool", POOLS)
def test_a_database_that_is_locked_for_long(fleet: Any, pool: str, measured: Measured) -> None:
    """Ten times as long as the worker's patience with a lock, at least."""
    worker = fleet.start(*LEASE, "-P", pool, "-c", "2")
    job = fleet.submit("hold", "a", 0.3)
    waiting = [fleet.submit("add", 1, number) for number in range(20)]
    fleet.wait_until("a", "started")
    holder = sqlite3.connect(fleet.folder / "jobs.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    fleet.wait_until("a", "ended")
    worker.wait_for_log("the store does not answer")
    time.sleep(LOCKED)
    assert worker.popen.poll() is None
    holder.execute("ROLLBACK")
    holder.close()
    unlocked_at = time.monotonic()
    assert job.get(PATIENCE) in fleet.pids("a", "ended")
    assert [each.get(PATIENCE) for each in waiting] == [1 + number for number in range(20)]
    took = time.monotonic() - unlocked_at
    assert worker.popen.poll() is None
    assert len(fleet.pids("a", "started")) == 1
    measured(locked=LOCKED, went_on_after=took)
    assert took < BACKOFF + 1.0 + SLACK


@linux_only
@pytest.mark.parametrize("pool", POOLS)
def test_files_that_may_not_grow(fleet: Any, pool: str, measured: Measured) -> None:
    """How a quota of the system ends a write."""
    worker = fleet.start(*LEASE, "-P", pool, "-c", "2")
    job = fleet.submit("hold", "a", 60.0)
    fleet.wait_until("a", "started")
    unlimited = resource.RLIM_INFINITY
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (4096, unlimited))
    waiting = [fleet.submit("add", 1, number) for number in range(20)]
    fleet.touch("a.go")
    worker.wait_for_log("the store does not answer")
    time.sleep(0.5)
    assert worker.popen.poll() is None
    resource.prlimit(worker.pid, resource.RLIMIT_FSIZE, (unlimited, unlimited))
    freed_at = time.monotonic()
    assert job.get(PATIENCE) in fleet.pids("a", "ended")
    assert [each.get(PATIENCE) for each in waiting] == [1 + number for number in range(20)]
    took = time.monotonic() - freed_at
    assert len(fleet.pids("a", "started")) == 1
    measured(went_on_after=took)
    assert took < BACKOFF + 1.0 + SLACK


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of four megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("may not mount a file system here")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


class TestFullDisk:
    @pytest.fixture
    def store_url(self, small_disk: Path) -> str:
        return f"sqlite:///{small_disk}/jobs.db?busy_timeout=0.2"

    @pytest.mark.parametrize("pool", POOLS)
    def test_a_disk_that_is_full(
        self, fleet: Any, small_disk: Path, pool: str, measured: Measured
    ) -> None:
        worker = fleet.start(*LEASE, "-P", pool, "-c", "1")
        job = fleet.submit("hold", "a", 60.0)
        fleet.wait_until("a", "started")
        # Their results need more room than there will be.
        waiting = fleet.task("swell").submit_many([(100_000,)] * 20)
        fill(small_disk / "ballast")
        fleet.touch("a.go")
        worker.wait_for_log("the store does not answer")
        time.sleep(0.5)
        assert worker.popen.poll() is None
        (small_disk / "ballast").unlink()
        freed_at = time.monotonic()
        assert job.get(PATIENCE) in fleet.pids("a", "ended")
        assert [len(each.get(PATIENCE)) for each in waiting] == [100_000] * 20
        took = time.monotonic() - freed_at
        assert len(fleet.pids("a", "started")) == 1
        measured(went_on_after=took)
        assert took < BACKOFF + 1.0 + SLACK


def fill(file: Path) -> None:
    """Take what is left of the disk, to the last byte."""
    with file.open("wb", buffering=0) as stream:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    stream.write(b"x" * size)
            except OSError:
                continue
