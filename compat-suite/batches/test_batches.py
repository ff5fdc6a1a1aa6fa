"""celery-batches, as released, in a worker. Its wheel has no tests: these are ours."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PATIENCE = 60.0
PROGRAM = """
import os
from celery import Celery
from celery_batches import Batches

app = Celery("proj", broker=os.environ["TEST_BROKER"], backend=os.environ["TEST_BACKEND"])
app.conf.worker_prefetch_multiplier = 0  # as its documentation wants it

@app.task(base=Batches, flush_every=5, flush_interval=0.5)
def collect(requests):
    with open("sizes", "a") as file:
        print(len(requests), file=file, flush=True)
    for request in requests:
        app.backend.mark_as_done(request.id, 10 * request.args[0], request=request)

@app.task
def add(x, y):
    return x + y
"""


class Worker:
    def __init__(self, folder: Path, *options: str) -> None:
        self.log = folder / "log"
        command = [sys.executable, "-m", "celery", "-A", "proj", "worker", "-l", "INFO", *options]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + PATIENCE
        while "ready." not in self.log.read_text():
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.05)

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "proj.py").write_text(PROGRAM)
    return tmp_path


@pytest.fixture(params=["prefork", "threads", "solo"])
def worker(request: pytest.FixtureRequest, folder: Path) -> Iterator[Worker]:
    started = Worker(folder, "-P", request.param, "-c", "2")
    yield started
    if started.process.poll() is None:
        started.process.kill()
        started.process.wait()


def ask(folder: Path, *lines: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(["from proj import add, collect", *lines])],
        cwd=folder,
        env=dict(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_calls_come_in_batches_and_have_their_results(folder: Path, worker: Worker) -> None:
    said = ask(
        folder,
        "results = [collect.delay(number) for number in range(12)]",
        "print(add.delay(1, 2).get(timeout=30), [each.get(timeout=30) for each in results])",
    )
    assert said == f"3 {list(range(0, 120, 10))}"
    assert worker.stop() == 0
    sizes = [int(line) for line in (folder / "sizes").read_text().split()]
    assert sum(sizes) == 12
    assert max(sizes) > 1


def test_calls_by_signature_and_eagerly(folder: Path, worker: Worker) -> None:
    said = ask(
        folder,
        "from celery import group",
        "print(group(collect.s(number) for number in range(7))().get(timeout=30))",
        "print(collect.apply(args=(3,)).successful())",
    )
    assert said.splitlines() == [str(list(range(0, 70, 10))), "True"]
