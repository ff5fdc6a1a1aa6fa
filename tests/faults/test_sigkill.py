"""400 short jobs, and who works on them is killed in the midst of it: nothing is lost, and nothing
waits longer than the lease and a second.

Three trials on every store by default; more, and what each one saw, by
``PROMISES_TRIALS=50 pytest tests/faults/test_sigkill.py -s``.
"""

import os
import random
import signal
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from tests.waiting import PATIENCE

from taskmq import JobState
from taskmq.hooks import MOST_HELD

EVERY_STORE = True
BY_BROKER = ("test_sigkill_while_consuming_400_jobs_loses_none_and_strands_none",)
SLACK = float(os.environ.get("PROMISES_SLACK", "2"))
TRIALS = int(os.environ.get("PROMISES_TRIALS", "3"))
JOBS = 400
LEASE = 1.0
OPTIONS = ("--lease", str(LEASE), "-c", "8")


@pytest.mark.parametrize("trial", range(TRIALS))
def test_sigkill_while_consuming_400_jobs_loses_none_and_strands_none(
    fleet: Any, trial: int, container: Sequence[str], measured: Callable[..., None]
) -> None:
    """In every second trial the successor cannot see that the victim is dead: the lease tells."""
    begun = random.Random(trial).randrange(JOBS)
    wrapper = container if trial % 2 else ()
    jobs = fleet.task("record").submit_many([(number,) for number in range(JOBS)])
    victim = fleet.start(*OPTIONS, wrapper=wrapper)
    while len(fleet.records()) < begun:
        assert victim.popen.poll() is None, victim.err
    victim.send_to_all(signal.SIGKILL)
    killed_at = time.monotonic()
    victim.wait()
    before = len(fleet.records())
    fleet.start(*OPTIONS)
    served_at = max(killed_at + LEASE, time.monotonic())
    states = [job.wait(PATIENCE) for job in jobs]
    values = [job.get(PATIENCE) for job in jobs]

    runs = [number for number, _, _ in fleet.records()]
    last = max(at for _, _, at in fleet.records())
    longest = fleet.longest_wait(served_at)
    lost, repeated = JOBS - len(set(runs)), len(runs) - len(set(runs))
    measured(
        begun_before_the_kill=before,
        lost=lost,
        run_twice=repeated,
        seen_by_the_lease=bool(wrapper),
        last_after_the_kill=last - killed_at,
        last_after_the_lease_and_a_worker=last - served_at,
        longest_wait=longest,
    )
    assert lost == 0
    assert states == [JobState.SUCCEEDED] * JOBS
    assert values == list(range(JOBS))
    assert repeated <= MOST_HELD  # what ran, and what had run but was not settled yet
    assert longest <= 1.0 + SLACK
