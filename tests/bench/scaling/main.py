"""What grows with what: workers, depth, queues, scheduled jobs, bytes, workers at rest.

    python -m tests.bench scaling                              all of it, the better part of an hour
    python -m tests.bench scaling --store redis --only depth --only queues
    python -m tests.bench scaling --only depth --sizes 1000,100000 --rounds 3
    python -m tests.bench scaling --json points.json --markdown table.md --plot scaling.png
    python -m tests.bench scaling --from points.json --plot scaling.png

All sizes of a question lie beside each other and are measured in turns, so that they share the
noise of the machine: compare the ratios in brackets, which are taken within a round. A claim is one
exchange of 100 jobs, as a worker at work makes them; a submit or schedule is one call of 500; what
each takes are milliseconds of processors, in client and server together. Linux alone tells them.
The memory of a worker over a million jobs has a program of its own: python -m tests.bench memory.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from tests.bench.report import number

from .questions import BROKERS, QUESTIONS, Amounts, Point
from .report import markdown, plot


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench scaling", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    own = Amounts()
    parser.add_argument("--store", action="append", choices=BROKERS, help="default: all")
    parser.add_argument("--only", action="append", choices=list(QUESTIONS), help="default: all")
    parser.add_argument("--sizes", type=_sizes, help="other ones than a question has, e.g. 10,1000")
    parser.add_argument("--rounds", type=int, default=own.rounds)
    parser.add_argument("--jobs", type=int, default=own.drained, help="that workers drain")
    parser.add_argument("--sample", type=int, default=own.sample, help="jobs claimed each time")
    parser.add_argument("--per-queue", type=int, default=own.per_queue, help="jobs in each queue")
    parser.add_argument("--seconds", type=float, default=own.seconds, help="of rest")
    parser.add_argument("--json", type=Path, help="write every point there (-: print them)")
    parser.add_argument("--markdown", type=Path, help="write the tables there")
    parser.add_argument("--plot", type=Path, help="draw a PNG and an SVG there; needs matplotlib")
    parser.add_argument("--from", dest="earlier", type=Path, help="measure nothing; read that JSON")
    options = parser.parse_args(arguments)
    if options.plot is not None and find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: pip install matplotlib")
    if options.sizes and len(options.only or ()) != 1:
        parser.error("--sizes needs one question: --only depth")
    return options


def _sizes(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.earlier is None:
        points = list(_watched(measured(options)))
        setting = setting_of(options)
    else:
        earlier = json.loads(options.earlier.read_text())
        points = [Point(**point) for point in earlier["points"]]
        setting = earlier["setting"]
    if options.json is not None:
        said = {"setting": setting, "points": [asdict(point) for point in points]}
        text = json.dumps(said, indent=1)
        print(text) if str(options.json) == "-" else options.json.write_text(text + "\n")
    table = markdown(points, setting)
    if options.markdown is not None:
        options.markdown.write_text(table)
    elif options.json is None:
        print(table, end="")
    if options.plot is not None:
        plot(points, options.plot)
    return 0


def measured(options: argparse.Namespace) -> Iterator[Point]:
    amounts = Amounts(
        rounds=options.rounds,
        sample=options.sample,
        drained=options.jobs,
        per_queue=options.per_queue,
        seconds=options.seconds,
    )
    for name in options.only or QUESTIONS:
        question = QUESTIONS[name]
        for store in options.store or BROKERS:
            if store in question.stores:
                yield from question.ask(store, amounts, options.sizes or question.sizes)


def _watched(points: Iterator[Point]) -> Iterator[Point]:
    """The same, or those until somebody interrupted it. Whoever watches sees how far it is."""
    try:
        for point in points:
            figures = ", ".join(f"{name} {number(value)}" for name, value in point.figures.items())
            where = f"{point.question}, {point.store} {point.who}".strip()
            print(f"round {point.round + 1}, {where}, {point.size:,}: {figures}", file=sys.stderr)
            yield point
    except KeyboardInterrupt:
        print("interrupted: what follows was measured before", file=sys.stderr)


def setting_of(options: argparse.Namespace) -> dict[str, object]:
    return {
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "machine": f"{platform.machine()} with {os.cpu_count()} cores",
        "rounds": options.rounds,
    }
