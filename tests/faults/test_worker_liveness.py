"""Workers that freeze, vanish or hold the interpreter: who has the job, and when."""

import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

import pytest
from tests.waiting import PATIENCE

from taskmq import JobState

LONG_LEASE = ("--lease", "60")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere jobs wait for the lease")


@linux_only
def test_a_killed_worker_s_successor_has_its_job_at_once(fleet: Any) -> None:
    victim = fleet.start(*LONG_LEASE, "-n", "w1")
    job = fleet.submit("hold", "a", 60)
    fleet.wait_until("a", "started")
    victim.send(signal.SIGKILL)
    victim.wait()
    successor = fleet.start(*LONG_LEASE, "-n", "w1")
    ready_at = time.monotonic()
    assert fleet.wait_until("a", "started", times=2) - ready_at < 1.0
    fleet.touch("a.go")
    assert job.get(PATIENCE) == successor.pid


def test_a_worker_in_another_container_is_not_mistaken_for_a_dead_one(
    fleet: Any, container: Sequence[str]
) -> None:
    """Its number is somebody else's out here. Another's death shows that the looks were taken."""
    if not container:
        pytest.skip("may not make PID namespaces here (unshare)")
    fleet.start(*LONG_LEASE, "-c", "1", wrapper=container)
    contained = fleet.submit("hold", "contained", 60)
    fleet.wait_until("contained", "started")
    victim = fleet.start(*LONG_LEASE, "-c", "1")
    fleet.submit("hold", "plain", 60)
    fleet.wait_until("plain", "started")
    neighbour = fleet.start(*LONG_LEASE, "-c", "2")
    victim.send(signal.SIGKILL)
    fleet.wait_until("plain", "started", times=2)
    assert contained.info["reclaims"] == 0
    assert len(fleet.pids("contained", "started")) == 1
    assert neighbour.err.count("is gone") == 1


def test_a_task_may_hold_the_interpreter_for_half_a_lease(fleet: Any) -> None:
    """The bound is two thirds; a busy machine needs some of it."""
    first = fleet.start("--lease", "2", "-c", "1")
    second = fleet.start("--lease", "2", "-c", "1")
    jobs = [fleet.submit("grab", f"a{number}", 1.0) for number in range(4)]
    pids = [job.get(PATIENCE) for job in jobs]
    assert set(pids) <= {first.pid, second.pid}
    assert [job.info["deliveries"] for job in jobs] == [1] * 4


def test_a_revoked_job_is_told_within_a_second(fleet: Any) -> None:
    fleet.start(*LONG_LEASE)
    job = fleet.submit("stop_when_told", "a")
    fleet.wait_until("a", "started")
    revoked_at = time.monotonic()
    job.revoke()
    assert fleet.wait_until("a", "stopped") - revoked_at < 1.5
    assert job.wait(PATIENCE) == JobState.REVOKED
