"""The measurements, each on a fresh store. All give a mapping from a figure's name to its value."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from taskmq import App
from taskmq.transport import Delivery
from taskmq.worker import Worker, WorkerHook

from .tasks import CONCURRENCY, make_app

Figures = dict[str, float]

BATCH = 500
PAUSE = 0.03
"""Seconds before each latency sample, for the worker to fall asleep."""
TIMEOUT = 60.0


@dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    jobs: int = 10_000
    samples: int = 50
    idle_seconds: float = 3.0
    pool: str = "threads"
    concurrency: int = CONCURRENCY

    def app(self, url: str) -> App:
        return make_app(url, pool=self.pool, concurrency=self.concurrency)


def enqueue_one_by_one(url: str, sizes: Sizes) -> Figures:
    """``task.delay()`` in a loop: each call is durable when it returns."""
    with sizes.app(url) as app:
        submit = app.tasks["bench.noop"].delay
        seconds = _timed(lambda: [submit(number) for number in range(sizes.jobs)])
    return {"enqueue one by one, jobs/s": sizes.jobs / seconds}


def enqueue_in_batches(url: str, sizes: Sizes) -> Figures:
    """``task.submit_many()`` with 500 jobs a call."""
    with sizes.app(url) as app:
        seconds = _timed(lambda: _fill(app, sizes.jobs))
    return {f"enqueue in batches of {BATCH}, jobs/s": sizes.jobs / seconds}


class CountBatches(WorkerHook):
    def __init__(self) -> None:
        self.sizes: list[int] = []

    def on_deliveries(self, worker: Worker, deliveries: Sequence[Delivery]) -> None:
        self.sizes.append(len(deliveries))


def drain(url: str, sizes: Sizes) -> Figures:
    """One worker runs noop jobs that were enqueued before."""
    with sizes.app(url) as app:
        _fill(app, sizes.jobs)
        batches = CountBatches()
        worker = Worker(app, hook=batches)
        cpu, began = time.process_time(), time.perf_counter()
        report = worker.run_until_idle(TIMEOUT)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    if report.succeeded != sizes.jobs:
        raise RuntimeError(f"{report.succeeded} of {sizes.jobs} jobs were run")
    return {
        "drain, jobs/s": sizes.jobs / seconds,
        "drain, process CPU per job, µs": cpu / sizes.jobs * 1e6,
        "drain, mean batch": sizes.jobs / len(batches.sizes),
    }


def asleep(url: str, sizes: Sizes) -> Figures:
    """A worker with nothing to do: how fast it wakes up, and what it costs until then."""
    with sizes.app(url) as app, _worker(app, url, sizes):
        run = app.tasks["bench.started"]
        run.delay().get(TIMEOUT)
        latencies = sorted(_latency(run.delay) for _ in range(sizes.samples))
        busy = app.tasks["bench.cpu"]
        before = busy.delay().get(TIMEOUT)
        time.sleep(sizes.idle_seconds)
        idle = busy.delay().get(TIMEOUT) - before
    return {
        "wake-up, p50, ms": _percentile(latencies, 50) * 1e3,
        "wake-up, p99, ms": _percentile(latencies, 99) * 1e3,
        "idle CPU, %": idle / sizes.idle_seconds * 100,
    }


MEASURES: tuple[Callable[[str, Sizes], Figures], ...] = (
    enqueue_one_by_one,
    enqueue_in_batches,
    drain,
    asleep,
)


def _fill(app: App, jobs: int) -> None:
    submit_many = app.tasks["bench.noop"].submit_many
    for start in range(0, jobs, BATCH):
        submit_many([(number,) for number in range(start, min(jobs, start + BATCH))])


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _latency(submit: Callable[[], object]) -> float:
    """Seconds from the call of submit to the first line of the task."""
    time.sleep(PAUSE)
    called_at = time.monotonic()
    result = submit()
    started_at: float = result.get(TIMEOUT)  # type: ignore[attr-defined]  # a Result[float]
    return started_at - called_at


def _percentile(ordered: Sequence[float], percent: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


@contextmanager
def _worker(app: App, url: str, sizes: Sizes) -> Iterator[None]:
    """A worker in a process of its own, or in a thread for a store that lives in this process."""
    if app.transport.capabilities.shared:
        command = [sys.executable, "-m", "tests.bench.tasks", url]
        command += [sizes.pool, str(sizes.concurrency)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            if process.stdout is None or process.stdout.readline() != "ready\n":
                raise RuntimeError("the worker process did not start")
            yield
            process.terminate()
        return
    worker = Worker(app)
    thread = threading.Thread(target=worker.run)
    thread.start()
    yield
    worker.stop()
    thread.join()
