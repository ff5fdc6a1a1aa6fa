"""``python -m taskmq.testing.conformance TARGET``: one line a case, exit status 0 or 1."""

from __future__ import annotations

import argparse
import sys

from taskmq.errors import ConfigError

from .suite import Outcome, Report, Status, cases, run


def main(arguments: list[str] | None = None) -> int:
    """Exit status 0: every promise kept; 1: one was broken; 2: nothing could be tested."""
    parser = argparse.ArgumentParser(
        prog="python -m taskmq.testing.conformance",
        description="Check what a transport promises.",
    )
    parser.add_argument(
        "target",
        help="memory://, sqlite:////tmp/check.db, any URL with {case} where it names the store, "
        "or module:factory with factory(name, clock) -> Transport",
    )
    parser.add_argument("-k", dest="wanted", default="", help="only cases whose name contains this")
    options = parser.parse_args(arguments)
    chosen = [case for case in cases() if options.wanted in str(case)]
    if not chosen:
        parser.error(f"no case has {options.wanted!r} in its name")
    try:
        report = run(options.target, only=chosen, on_outcome=_show)
    except ConfigError as error:
        parser.error(str(error))
    _sum_up(report)
    return 0 if report.ok else 1


def _show(outcome: Outcome) -> None:
    line = f"{outcome.status.value:8}{outcome.case}"
    if outcome.status is Status.FAILED:
        line += f"\n          promise: {outcome.case.promise}\n          {outcome.detail}"
    elif outcome.detail:
        line += f"  {outcome.detail}"
    _say(line)


def _sum_up(report: Report) -> None:
    counts = [f"{report.count(status)} {status.value}" for status in Status]
    _say(f"{len(report.outcomes)} cases: {', '.join(counts)}")


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
