"""How fast the engine is, beside others if you like.

python -m tests.bench                                   the engine on every store, a few minutes
python -m tests.bench --store redis --only drain --pool solo --pool threads --processes 1,2
python -m tests.bench --peers celery,huey --contestant native --contestant shim
python -m tests.bench --targets --store redis           what it is held to, and whether it is met
python -m tests.bench --json runs.json --markdown table.md --plot bench.png
python -m tests.bench --from runs.json --plot bench.png  draw what was measured earlier
python -m tests.bench memory --help                     whether a worker's memory stays flat
python -m tests.bench scaling --help                    what grows with depth, queues, workers, ...
python -m tests.bench.workflows --help                  what a node costs beside a plain job

Every run is a process of its own on an empty store, and its workers are processes too. Contestants
take turns within a round, so that they share the noise of the machine: compare ratios, not figures
of different days. Peers get environments of their own, in .cache/bench.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path

from . import memory, scaling, targets
from .environments import ENTRANTS, OURS, PEERS
from .report import markdown, number, plot, rows_of
from .rounds import JOBS, Manner, Plan, Run, plan_of, run_all
from .stores import STORES

OTHERS = {"memory": memory.main, "scaling": scaling.main}
"""Programs of their own, by their name on the command line."""
POOLS = ("threads", "solo", "processes", "asyncio")


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    what = parser.add_argument_group("what is measured")
    what.add_argument("--store", action="append", choices=STORES, help="default: all")
    what.add_argument("--only", action="append", choices=list(JOBS), help="default: everything")
    what.add_argument("--pool", action="append", choices=POOLS, help="default: threads")
    what.add_argument("--processes", type=_numbers, default=[1], help="of workers, e.g. 1,2,4")
    what.add_argument("-c", "--concurrency", type=int, default=8, help="jobs at once, each worker")
    what.add_argument("--contestant", action="append", choices=OURS, help="default: native")
    what.add_argument("--peers", type=_peers, default=[], help=f"some of {','.join(PEERS)}")
    what.add_argument(
        "--targets", action="store_true", help="what the engine is held to, beside its peers"
    )
    what.add_argument("--rounds", type=int, default=5, help="medians of so many (default: 5)")
    what.add_argument("--jobs", type=int, help="a run; default: as each workload needs them")
    what.add_argument("--idle-seconds", type=float, default=10.0)
    what.add_argument("--no-fsync", action="store_true", help="PostgreSQL waits for no disk")
    out = parser.add_argument_group("what comes of it")
    out.add_argument("--json", type=Path, help="write every run there (-: print them)")
    out.add_argument("--markdown", type=Path, help="write a table there")
    out.add_argument("--plot", type=Path, help="draw a PNG and an SVG there; needs matplotlib")
    out.add_argument("--from", dest="earlier", type=Path, help="measure nothing; read that JSON")
    options = parser.parse_args(arguments)
    if options.plot is not None and find_spec("matplotlib") is None:
        parser.error("--plot needs matplotlib: pip install matplotlib")
    return options


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def _peers(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"no peer {name!r}: there are {', '.join(PEERS)}")
    return names


def main() -> None:
    if sys.argv[1:2] and sys.argv[1] in OTHERS:
        sys.exit(OTHERS[sys.argv[1]](sys.argv[2:]))
    options = parse(sys.argv[1:])
    held = targets.chosen(options.store, options.only) if options.targets else []
    if options.earlier is None:
        plan = targets.plan_for(held) if options.targets else plan_from(options)
        runs = measured(plan, manner(options))
        setting = setting_of(options, plan)
    else:
        earlier = json.loads(options.earlier.read_text())
        runs, setting = [Run(**run) for run in earlier["runs"]], earlier["setting"]
    if options.json is not None:
        text = json.dumps({"setting": setting, "runs": [asdict(run) for run in runs]}, indent=1)
        print(text) if str(options.json) == "-" else options.json.write_text(text + "\n")
    verdicts = targets.judge(held, runs)
    table = targets.table(verdicts) + "\n" if verdicts else ""
    table += markdown(rows_of(runs), setting, errors=[run for run in runs if run.error])
    if options.markdown is not None:
        options.markdown.write_text(table)
    elif options.json is None:
        print(table, end="")
    if options.plot is not None:
        plot(rows_of(runs), options.plot)
    if any(run.error for run in runs) or not all(verdict.met for verdict in verdicts):
        sys.exit(1)


def plan_from(options: argparse.Namespace) -> Plan:
    names = [*(options.contestant or OURS[:1]), *options.peers]
    pools = options.pool or POOLS[:1]
    crews = [(pool, count, options.concurrency) for pool in pools for count in options.processes]
    return plan_of(options.store or STORES, options.only or list(JOBS), crews, names)


def manner(options: argparse.Namespace) -> Manner:
    return Manner(options.rounds, options.jobs, options.idle_seconds, not options.no_fsync)


def setting_of(options: argparse.Namespace, plan: Plan) -> dict[str, object]:
    names = dict.fromkeys(name for names in plan.values() for name in names)
    versions = [requirement for name in names for requirement in ENTRANTS[name].requirements[:1]]
    return {
        "Python": platform.python_version(),
        "SQLite": sqlite3.sqlite_version,
        "machine": f"{platform.machine()} with {os.cpu_count()} cores",
        "rounds": options.rounds,
        **({"peers": " ".join(versions)} if versions else {}),
    }


def measured(plan: Plan, manner: Manner) -> list[Run]:
    """All runs of the plan, or those that were done when somebody interrupted it. Whoever watches
    sees how far it is."""
    runs: list[Run] = []
    try:
        for run in run_all(plan, manner):
            runs.append(run)
            report(run, len(runs), sum(map(len, plan.values())) * manner.rounds)
    except KeyboardInterrupt:
        print("interrupted: what follows is of the runs that were done", file=sys.stderr)
    return runs


def report(run: Run, done: int, planned: int) -> None:
    figures = ", ".join(f"{name} {number(value)}" for name, value in run.figures.items())
    where = f"round {run.round + 1}, {run.cell.title}, {run.contestant}"
    print(f"{done}/{planned}: {where}: {run.error or figures}", file=sys.stderr)


if __name__ == "__main__":
    main()
