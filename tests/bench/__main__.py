"""First numbers of the engine on its embedded stores, and on a PostgreSQL of its own.

python -m tests.bench                      a table, medians of three rounds
python -m tests.bench --json --rounds 5    for machines
python -m tests.bench --store sqlite --store postgres --only drain
python -m tests.bench memory --help        whether a worker's memory stays flat
"""

from __future__ import annotations

import argparse
import json
import platform
import sqlite3
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from tests import services

from taskmq.plugins import open_transport

from . import memory
from .measures import MEASURES, Figures, Sizes
from .tasks import CONCURRENCY, POOLS

STORES = ("sqlite", "memory", "postgres")
EMBEDDED = STORES[:2]


def parse(arguments: list[str]) -> argparse.Namespace:
    names = [measure.__name__ for measure in MEASURES]
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--store", action="append", choices=STORES, help="default: sqlite, memory")
    parser.add_argument("--only", action="append", choices=names, help="default: everything")
    parser.add_argument("--rounds", type=int, default=3, help="medians of so many (default: 3)")
    parser.add_argument("--jobs", type=int, default=Sizes.jobs, help="jobs a round and measure")
    parser.add_argument("--samples", type=int, default=Sizes.samples, help="wake-ups a round")
    parser.add_argument("--idle-seconds", type=float, default=Sizes.idle_seconds)
    parser.add_argument("--pool", choices=POOLS, default=POOLS[0], help="of the worker")
    parser.add_argument("-c", "--concurrency", type=int, default=CONCURRENCY)
    parser.add_argument("--options", default="", help="of the URL, e.g. synchronous=full")
    parser.add_argument("--no-fsync", action="store_true", help="PostgreSQL waits for no disk")
    parser.add_argument("--folder", type=Path, help="where the SQLite files are made")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    return parser.parse_args(arguments)


def one_round(store: str, options: argparse.Namespace, sizes: Sizes) -> Figures:
    """Every chosen measure once, each on a store of its own."""
    figures: Figures = {}
    for measure in MEASURES:
        if options.only and measure.__name__ not in options.only:
            continue
        with _new_store(store, options) as url:
            figures |= measure(url, sizes)
    return figures


@contextmanager
def _new_store(store: str, options: argparse.Namespace) -> Iterator[str]:
    """The URL of an empty one."""
    query = f"?{options.options}" if options.options else ""
    if store == "postgres":
        with services.Postgres({"shared_buffers": "256MB"}, fsync=not options.no_fsync) as server:
            url = f"{server.url}{query}"
            with closing(open_transport(url)) as transport:
                transport.stats()  # the schema is there
            yield url
        return
    with tempfile.TemporaryDirectory(prefix="taskmq-bench-", dir=options.folder) as folder:
        yield f"sqlite:///{folder}/jobs.db{query}" if store == "sqlite" else "memory://"


def main() -> None:
    if sys.argv[1:2] == ["memory"]:
        sys.exit(memory.main(sys.argv[2:]))
    options = parse(sys.argv[1:])
    sizes = Sizes(
        options.jobs, options.samples, options.idle_seconds, options.pool, options.concurrency
    )
    results: dict[str, dict[str, list[float]]] = {}
    for store in options.store or EMBEDDED:
        rounds = [one_round(store, options, sizes) for _ in range(options.rounds)]
        results[store] = {name: [figures[name] for figures in rounds] for name in rounds[0]}
    if options.json:
        print(json.dumps({"setting": setting(sizes, options), "results": results}, indent=2))
    else:
        print_table(results, setting(sizes, options))


def setting(sizes: Sizes, options: argparse.Namespace) -> dict[str, object]:
    return {
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "machine": platform.machine(),
        "pool": sizes.pool,
        "concurrency": sizes.concurrency,
        "jobs": sizes.jobs,
        "rounds": options.rounds,
    }


def print_table(results: dict[str, dict[str, list[float]]], notes: dict[str, object]) -> None:
    print(", ".join(f"{name} {value}" for name, value in notes.items()))
    for store, figures in results.items():
        print(f"\n{store:<40}{'median':>12}{'least':>12}{'most':>12}")
        for name, values in figures.items():
            cells = (statistics.median(values), min(values), max(values))
            print(f"  {name:<38}" + "".join(f"{number(cell):>12}" for cell in cells))


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.2f}"


if __name__ == "__main__":
    main()
