"""SIGTERM and SIGINT to a worker process: who finishes, who hands over, when it is gone."""

import os
import signal
import subprocess
import sys
import time
from typing import Any

import pytest
from tests.waiting import PATIENCE

from taskmq import JobState

LEASE = ("--lease", "60")
BUSY = 0.5
"""Seconds that a machine with more to do than processors may add."""


def test_unstarted_jobs_go_back_at_once(fleet: Any) -> None:
    first = fleet.start(*LEASE, "-c", "1", "--shutdown-timeout", "30")
    long = fleet.submit("hold", "long", 60)
    fleet.wait_until("long", "started")
    jobs = [fleet.submit("add", 1, number) for number in range(5)]
    second = fleet.start(*LEASE)
    first.send(signal.SIGTERM)
    assert [job.get(PATIENCE) for job in jobs] == [1, 2, 3, 4, 5]
    assert first.popen.poll() is None
    fleet.touch("long.go")
    assert first.wait() == 0
    assert long.get(PATIENCE) == first.pid
    second.send(signal.SIGTERM)
    assert second.wait() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("pool", ["threads", "solo"])
def test_a_second_signal_ends_it_at_once(fleet: Any, pool: str, number: signal.Signals) -> None:
    worker = fleet.start(*LEASE, "-P", pool, "-c", "1", "--shutdown-timeout", "60")
    job = fleet.submit("hold", "a", 60)
    fleet.wait_until("a", "started")
    worker.send(number)
    worker.wait_for_log("stops; waits up to 60 s for 1 job:")
    again_at = time.monotonic()
    worker.send(number)
    assert worker.wait() == 130
    assert time.monotonic() - again_at < 2.0
    assert (job.state, job.info["deliveries"]) == (JobState.QUEUED, 0)
    assert "Traceback" not in worker.err


@pytest.mark.parametrize("task", ["hold", "compute"])
def test_the_grace_ends_for_a_job_in_the_thread_of_the_loop_too(fleet: Any, task: str) -> None:
    worker = fleet.start(*LEASE, "-P", "solo", "--shutdown-timeout", "1")
    job = fleet.submit(task, *{"hold": ("a", 60), "compute": ("a",)}[task])
    fleet.wait_until("a", "started")
    worker.send(signal.SIGTERM)
    stopped_at = time.monotonic()
    assert worker.wait() == 0
    assert time.monotonic() - stopped_at <= 1.0 + BUSY
    assert job.state == JobState.QUEUED


def test_what_cannot_be_given_back_is_told_by_the_exit_code(fleet: Any) -> None:
    worker = fleet.start(*LEASE, "-c", "1", "--shutdown-timeout", "0.2")
    job = fleet.submit("hold", "a", 60)
    fleet.wait_until("a", "started")
    outage = fleet.touch("outage")
    worker.send(signal.SIGTERM)
    assert worker.wait() == 1
    assert "cannot give back what runs, it waits for its leases: outage" in worker.err
    outage.unlink()
    assert job.state == JobState.RUNNING


def test_ctrl_c_at_a_terminal_says_what_it_waits_for(fleet: Any) -> None:
    terminal, other_end = os.openpty()
    command = [sys.executable, "-m", "taskmq", "worker", "-A", "fleet_app:app", "-c", "1"]
    worker = subprocess.Popen(
        command, stderr=other_end, stdin=subprocess.DEVNULL, start_new_session=True
    )
    os.close(other_end)
    job = fleet.submit("hold", "a", 60)
    fleet.wait_until("a", "started")
    worker.send_signal(signal.SIGINT)
    said = b""
    while b"(Ctrl-C again: stop now)" not in said:
        said += os.read(terminal, 4096)
    assert b"taskmq: stops; waits up to 30 s for 1 job: fleet_app.hold " + job.id.encode() in said
    worker.send_signal(signal.SIGINT)
    assert worker.wait(PATIENCE) == 130
    os.close(terminal)
