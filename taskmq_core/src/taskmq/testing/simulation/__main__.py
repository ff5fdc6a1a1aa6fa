"""``python -m taskmq.testing.simulation``: many simulations, or one again.

    python -m taskmq.testing.simulation --seeds 1000 --transport sqlite
    python -m taskmq.testing.simulation --seeds 25000 --steps 40 --jobs 2
    python -m taskmq.testing.simulation --seed 17 --transport sqlite --steps 400 --shrink
    python -m taskmq.testing.simulation --replay failing.json --verbose

The exit status is 1 if anything was wrong, and the first such seed is told in full, with the
schedule that repeats it. ``--jobs`` spreads the seeds over processes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from taskmq.errors import ConfigError, TaskmqError

from .campaign import Campaign, Progress
from .report import Report
from .run import replay, simulate
from .schedule import Schedule
from .shrink import SECONDS, shrink

__all__ = ["main"]

MANY = 1000
"""Seeds of which it is said how far they are."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says; the exit status."""
    options = _parser().parse_args(arguments)
    try:
        if options.replay is not None:
            return _tell(replay(_schedule(options.replay)), options)
        if options.seed is not None:
            return _tell(simulate(options.seed, options.steps, options.transport), options)
        return _run_many(options)
    except TaskmqError as error:
        print(f"simulation: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m taskmq.testing.simulation", description="Simulate workers on a store."
    )
    parser.add_argument("--seed", type=int, help="run this one alone")
    parser.add_argument("--replay", metavar="FILE", help="run a schedule: a file, or its line")
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
    parser.add_argument(
        "--shrink",
        nargs="?",
        type=float,
        const=SECONDS,
        metavar="SECONDS",
        help=f"make a schedule that fails short, in at most so many seconds ({SECONDS:g})",
    )
    parser.add_argument("--save", metavar="FILE", help="write the schedule that fails to a file")
    return parser


def _schedule(text: str) -> Schedule:
    if text.lstrip().startswith("{"):
        return Schedule.load(text)
    try:
        return Schedule.load(Path(text).read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"--replay {text}: {error.strerror}") from None


def _run_many(options: argparse.Namespace) -> int:
    progress = Progress(options.seeds, sys.stderr if options.seeds >= MANY else None)
    campaign = Campaign(options.steps, options.transport, options.jobs)
    failed = campaign.run(range(options.first, options.first + options.seeds), progress)
    if failed is not None:
        return _tell(replay(failed), options)
    print(f"{options.transport}: {progress.summary()}: nothing wrong")
    return 0


def _tell(report: Report, options: argparse.Namespace) -> int:
    started = time.monotonic()
    if report.violations and options.shrink is not None:
        before = report.steps
        report = shrink(report, seconds=options.shrink)
        seconds = time.monotonic() - started
        print(f"shrunk from {before} steps to {report.steps} in {seconds:.1f} s\n")
    if options.verbose:
        print("\n".join(map(str, report.journal.lines)))
    print(report)
    if report.violations and options.save is not None:
        Path(options.save).write_text(report.schedule.dump() + "\n", encoding="utf-8")
    return 1 if report.violations else 0


if __name__ == "__main__":
    sys.exit(main())
