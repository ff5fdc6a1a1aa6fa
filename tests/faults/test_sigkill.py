"""400 short jobs on an SQLite file, the worker process killed at a random moment, the next one
started: nothing is lost, and nothing waits longer than the lease and a second.

Five trials by default; ``SIGKILL_TRIALS=30 pytest tests/faults/test_sigkill.py -s`` runs more and
prints what each one saw.
"""

import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest

from taskmq import JobState
from taskmq.worker.credit import CEILING

TRIALS = int(os.environ.get("SIGKILL_TRIALS", "5"))
JOBS = 400
LATEST_KILL = 0.25
"""Seconds after the worker is ready; the jobs alone take a fifth of a second and more."""
DEADLINE = 30.0
SCRIPT = Path(__file__).with_name("sigkill_app.py")


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sigkill_app", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def worker(url: str, file: Path) -> Iterator["subprocess.Popen[str]"]:
    """A worker process that has begun to reserve."""
    command = [sys.executable, str(SCRIPT), url, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def read_runs(file: Path) -> dict[int, list[float]]:
    """When each job ran, by its number."""
    runs: dict[int, list[float]] = {}
    for line in file.read_text().splitlines() if file.exists() else []:
        number, at = line.split()
        runs.setdefault(int(number), []).append(float(at))
    return runs


@pytest.mark.parametrize("trial", range(TRIALS))
def test_a_killed_worker_loses_nothing(trial: int, tmp_path: Path) -> None:
    script, moment = load_script(), random.Random(trial).uniform(0, LATEST_KILL)
    url, file = f"sqlite:///{tmp_path}/jobs.db", tmp_path / "runs"
    with script.make_app(url, file) as app:
        jobs = app.tasks["note"].submit_many([(number,) for number in range(JOBS)])
        with worker(url, file) as victim:
            time.sleep(moment)
            victim.send_signal(signal.SIGKILL)
            victim.wait(DEADLINE)
        killed_at = time.monotonic()
        before = len(read_runs(file))
        with worker(url, file) as successor:
            served_at = max(killed_at + script.LEASE, time.monotonic())
            states = Counter(job.wait(DEADLINE) for job in jobs)
            values = [job.get(DEADLINE) for job in jobs]
            successor.send_signal(signal.SIGTERM)
            assert successor.wait(DEADLINE) == 0

    runs = read_runs(file)
    lost = set(range(JOBS)) - runs.keys()
    repeated = sum(len(times) for times in runs.values()) - len(runs)
    last = max(max(times) for times in runs.values())
    print(
        f"\ntrial {trial}: killed {moment * 1e3:.0f} ms after ready with {before} jobs begun; "
        f"lost {len(lost)}, run twice {repeated}, last job {last - killed_at:.2f} s after the kill"
    )
    assert not lost
    assert states == {JobState.SUCCEEDED: JOBS}
    assert values == list(range(JOBS))
    assert repeated <= CEILING  # what ran, and what had run but was not settled yet
    assert last <= served_at + 1.0  # from when the lease had ended and there was a worker
