"""``python -m taskmq.testing.simulation``: many simulations, or one again.

    python -m taskmq.testing.simulation --seeds 1000 --transport sqlite
    python -m taskmq.testing.simulation --seed 17 --transport sqlite --steps 400

The exit status is 1 if anything was wrong, and the first such seed is told in full. ``--jobs``
spreads the seeds over processes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from taskmq.errors import TaskmqError

from .run import simulate

__all__ = ["main"]


@dataclass(frozen=True)
class Summary:
    """What is left of a report when it comes from another process."""

    numbers: Counter[str]
    failed: bool
    text: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says; the exit status."""
    options = _parser().parse_args(arguments)
    started = time.monotonic()
    total: Counter[str] = Counter()
    try:
        for summary in _summaries(options):
            total += summary.numbers
            if summary.failed:
                print(summary.text)
                return 1
            if options.seed is not None and options.verbose:
                print(summary.text)
    except TaskmqError as error:
        print(f"simulation: {error}", file=sys.stderr)
        return 2
    seconds = time.monotonic() - started
    numbers = ", ".join(f"{count:,} {name}" for name, count in total.items())
    print(f"{options.transport}: {numbers} in {seconds:.1f} s: nothing wrong")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m taskmq.testing.simulation", description="Simulate workers on a store."
    )
    parser.add_argument("--seed", type=int, help="run this one alone")
    parser.add_argument("--seeds", type=int, default=100, help="how many to run (%(default)s)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (%(default)s)")
    parser.add_argument("--steps", type=int, default=400, help="steps of each (%(default)s)")
    parser.add_argument(
        "--transport",
        default="memory",
        help="memory, sqlite, the URL of an empty store, or module:factory (%(default)s)",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes (%(default)s)")
    parser.add_argument("--verbose", action="store_true", help="tell one seed in full")
    return parser


def _summaries(options: argparse.Namespace) -> Iterator[Summary]:
    seeds: Iterable[int] = range(options.first, options.first + options.seeds)
    if options.seed is not None:
        seeds = (options.seed,)
    tasks = [(seed, options.steps, options.transport, options.verbose) for seed in seeds]
    if options.jobs == 1:
        yield from map(_run_one, tasks)
        return
    with ProcessPoolExecutor(options.jobs) as pool:
        try:
            yield from pool.map(_run_one, tasks, chunksize=4)
        finally:
            pool.shutdown(cancel_futures=True)


def _run_one(task: tuple[int, int, str, bool]) -> Summary:
    seed, steps, transport, verbose = task
    report = simulate(seed, steps, transport)
    numbers = Counter(
        seeds=1,
        steps=report.steps,
        jobs=report.jobs,
        runs=report.runs,
        crashes=report.crashes,
        faults=report.faults,
    )
    told = [str(line) for line in report.journal.lines] if verbose else []
    return Summary(numbers, bool(report.violations), "\n".join([*told, str(report)]))


if __name__ == "__main__":
    sys.exit(main())
