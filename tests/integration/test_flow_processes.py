"""Limits hold between processes."""

from __future__ import annotations

import contextlib
import importlib.util
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from tests.waiting import PATIENCE

from taskmq import JobState

SCRIPT = Path(__file__).with_name("flow_app.py")
WORKERS = 4


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("flow_app", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def a_worker(url: str, file: Path) -> Iterator[subprocess.Popen[str]]:
    """A worker process that has begun to reserve."""
    command = [sys.executable, str(SCRIPT), url, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def most_at_once(file: Path) -> dict[str, int]:
    """How many jobs of each resource ran at once, at most."""
    changes: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    for line in file.read_text().splitlines():
        name, began, ended = line.split()
        changes[name] += [(float(began), 1), (float(ended), -1)]
    most: dict[str, int] = {}
    for name, moments in changes.items():
        inside = most[name] = 0
        for _, change in sorted(moments):
            inside += change
            most[name] = max(most[name], inside)
    return most


def test_four_worker_processes_never_exceed_a_limit_of_two(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/jobs.db", tmp_path / "uses"
    with load_script().make_app(url, file) as app, contextlib.ExitStack() as stack:
        for _ in range(WORKERS):
            stack.enter_context(a_worker(url, file))
        names = ["a", "b"] * 60
        jobs = app.tasks["use"].submit_many([(name,) for name in names])
        assert {job.wait(PATIENCE) for job in jobs} == {JobState.SUCCEEDED}
    assert most_at_once(file) == {"a": 2, "b": 2}


def test_killed_workers_free_their_share_when_their_leases_end(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path}/jobs.db", tmp_path / "uses"
    with load_script().make_app(url, file) as app, contextlib.ExitStack() as stack:
        victims = [stack.enter_context(a_worker(url, file)) for _ in range(2)]
        jobs = app.tasks["use"].submit_many([("a",) for _ in range(100)])
        jobs[10].wait(PATIENCE)
        for victim in victims:
            victim.send_signal(signal.SIGKILL)
            victim.wait(PATIENCE)
        stack.enter_context(a_worker(url, file))
        assert {job.wait(PATIENCE) for job in jobs} == {JobState.SUCCEEDED}
    assert most_at_once(file)["a"] <= 2
