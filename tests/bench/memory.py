"""Whether a worker's memory stays flat: resident memory, its children's included, over jobs run.

    python -m tests.bench memory                     1,000,000 jobs that do nothing,
                                                     100,000 that fail with large locals
    python -m tests.bench memory --pool processes --jobs 20000 --failing 2000

The figure is the slope of a line through the samples, in bytes a job, after a warm-up of further
jobs (two fifths of those that fail), in which the store's page cache fills (8 MiB). It is flat if
it is at most --bound, or comes to at most 4 MiB over all jobs: less than that is the noise of
allocators. If it is not flat, the exit code is 1.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from taskmq import App

from .processes import resident_bytes
from .tasks import CONCURRENCY, POOLS, make_app

BATCH = 500
SAMPLES = 100
NOISE = 4 << 20
Sample = tuple[int, int]
"""Jobs begun, and bytes resident."""
Submit = Callable[[App, int, int], object]
"""Stores the jobs with the numbers from here to there."""


@dataclass(frozen=True)
class Verdict:
    """What the samples say."""

    jobs: int
    seconds: float
    after_warm_up: int
    at_the_end: int
    peak: int
    bytes_a_job: float
    bound: float

    @property
    def flat(self) -> bool:
        return self.bytes_a_job <= self.bound


def judge(samples: Sequence[Sample], warm_up: int, seconds: float, bound: float) -> Verdict:
    """Fit a line through the samples behind the warm-up."""
    counted = [sample for sample in samples if sample[0] >= warm_up]
    begun, resident = zip(*counted, strict=True)
    slope, _ = statistics.linear_regression(begun, resident)
    return Verdict(
        jobs=begun[-1] - warm_up,
        seconds=seconds,
        after_warm_up=resident[0],
        at_the_end=resident[-1],
        peak=max(resident for _, resident in samples),
        bytes_a_job=slope,
        bound=max(bound, NOISE / (begun[-1] - begun[0])),
    )


def samples_of(
    url: str, submit: Submit, options: argparse.Namespace, jobs: int
) -> Iterator[Sample]:
    """Store the jobs, let a worker process run them, look at it now and then."""
    with make_app(url) as app:
        for start in range(0, jobs, BATCH):
            submit(app, start, min(jobs, start + BATCH))
    with worker(url, options, max(1, jobs // SAMPLES)) as (process, lines):
        for line in lines:
            begun = int(line)
            yield begun, resident_bytes(process.pid)
            if begun >= jobs:
                return
    raise RuntimeError("the worker ended early")


@contextmanager
def worker(
    url: str, options: argparse.Namespace, step: int
) -> Iterator[tuple[subprocess.Popen[str], Iterator[str]]]:
    """A worker process, and what it says: how many jobs it has begun, every ``step`` jobs."""
    command = [sys.executable, "-m", "tests.bench.tasks", url, options.pool]
    command += [str(options.concurrency), str(step)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            if process.stdout is None or process.stdout.readline() != "ready\n":
                raise RuntimeError("the worker process did not start")
            yield process, iter(process.stdout.readline, "")
        finally:
            process.terminate()


def submit_noops(app: App, start: int, end: int) -> object:
    return app.tasks["bench.noop"].submit_many([(number,) for number in range(start, end)])


def submit_failing(size: int) -> Submit:
    def submit(app: App, start: int, end: int) -> object:
        calls = [(number, size) for number in range(start, end)]
        return app.tasks["bench.fail"].submit_many(calls)

    return submit


def measure(submit: Submit, options: argparse.Namespace, warm_up: int, jobs: int) -> Verdict:
    samples, began = [], 0.0
    with tempfile.TemporaryDirectory(prefix="taskmq-bench-", dir=options.folder) as folder:
        url = f"sqlite:///{folder}/jobs.db"
        for sample in samples_of(url, submit, options, warm_up + jobs):
            began = began or time.perf_counter()
            samples.append(sample)
    return judge(samples, warm_up, time.perf_counter() - began, options.bound)


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench memory", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--jobs", type=int, default=1_000_000, help="that do nothing; 0: none")
    parser.add_argument("--failing", type=int, default=100_000, help="that fail; 0: none")
    parser.add_argument("--locals", type=int, default=1_000_000, help="bytes in each of 2 frames")
    parser.add_argument("--bound", type=float, default=8.0, help="bytes a job (default: 8)")
    parser.add_argument("--pool", choices=POOLS, default=POOLS[0], help="of the worker")
    parser.add_argument("-c", "--concurrency", type=int, default=CONCURRENCY)
    parser.add_argument("--folder", type=Path, help="where the SQLite files are made")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    verdicts: dict[str, Verdict] = {}
    if options.jobs:
        verdicts["no-op"] = measure(submit_noops, options, 30_000, options.jobs)
    if options.failing:
        fail = submit_failing(options.locals)
        # The last of Python's arenas for all that tracebacks need are there after some 40,000.
        warm_up = max(6_000, options.failing * 2 // 5)
        verdicts["failing"] = measure(fail, options, warm_up, options.failing)
    if options.json:
        print(json.dumps({name: as_json(verdict) for name, verdict in verdicts.items()}, indent=2))
    else:
        for name, verdict in verdicts.items():
            print(f"{options.pool}, {name}: {describe(verdict)}")
    return 0 if all(verdict.flat for verdict in verdicts.values()) else 1


def as_json(verdict: Verdict) -> dict[str, Any]:
    return {**asdict(verdict), "flat": verdict.flat}


def describe(verdict: Verdict) -> str:
    return (
        f"{verdict.jobs:,} jobs in {verdict.seconds:,.0f} s, "
        f"{verdict.bytes_a_job:+.2f} bytes a job (bound {verdict.bound:.2f}): "
        f"{'flat' if verdict.flat else 'IT GROWS'}; "
        f"{verdict.after_warm_up / 1e6:.1f} MB after the warm-up, "
        f"{verdict.at_the_end / 1e6:.1f} MB at the end, peak {verdict.peak / 1e6:.1f} MB"
    )
