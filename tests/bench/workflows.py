"""What a node of a workflow costs, beside a plain job on the same store in the same run.

    python -m tests.bench.workflows [--nodes 10000] [--rounds 3] [--store sqlite] [--wall]

Each round submits and runs so many plain jobs, then a fan-out of as many with a join. Compare the
ratios: the figures are this machine's, and of this minute. They are processor time, of the server
too where there is one, so that a busy machine spoils less; ``--wall`` measures by the clock.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import services

from taskmq import App, Config
from taskmq.ids import new_id
from taskmq.worker import Worker
from taskmq.workflow import Workflow

STORES = ("memory", "sqlite", "redis", "postgres")
Clock = Callable[[], float]
TICKS = os.sysconf("SC_CLK_TCK")


def processor_time(server: int | None) -> float:
    """Of this process, and of a server with its children, dead or alive."""
    own = time.process_time()
    if server is None:
        return own
    ticks = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if server in (int(folder.name), int(fields[1])):
            ticks += sum(map(int, fields[11:15]))
    return own + ticks / TICKS


@contextmanager
def a_store(name: str) -> Iterator[tuple[Callable[[], str], int | None]]:
    """What gives the URL of a new one each time, and its server's process."""
    if name == "redis":
        with services.Redis() as redis:
            yield lambda: f"{redis.url}?namespace={new_id()}", redis.pid
    elif name == "postgres":
        with services.Postgres() as postgres:
            yield lambda: postgres.create_database(f"bench_{new_id().lower()}"), postgres.pid
    elif name == "sqlite":
        with tempfile.TemporaryDirectory(prefix="taskmq-bench-") as folder:
            yield lambda: f"sqlite:///{folder}/{new_id()}.db", None
    else:
        yield lambda: "memory://", None


def make_app(url: str) -> App:
    app = App(Config(transport=url, pool="solo", publish_timeout=600))

    @app.task(name="noop")
    def noop(number: int) -> int:
        return number

    @app.task(name="join")
    def join(values: list[int]) -> int:
        return len(values)

    return app


def timed(app: App, submit: Callable[[], Any], clock: Clock) -> tuple[float, float]:
    """Seconds to submit, and to run to the end."""
    began = clock()
    submit()
    submitted = clock()
    Worker(app).run_until_idle(3600)
    return submitted - began, clock() - submitted


def one_round(
    url: str, nodes: int, clock: Clock
) -> tuple[tuple[float, float], tuple[float, float]]:
    with make_app(url) as app:
        noop, join = app.tasks["noop"], app.tasks["join"]
        app.transport.stats()  # whatever a first call has to make
        runs: list[Any] = []

        def submit() -> None:
            flow = Workflow("fan-out")
            flow.add(join, flow.map(noop, range(nodes)))
            runs.append(flow.submit())

        jobs = [(number,) for number in range(nodes)]
        plain = timed(app, lambda: noop.submit_many(jobs), clock)
        joined = timed(app, submit, clock)
        assert runs[0].get(timeout=60) == nodes
        return plain, joined


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.workflows", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", action="append", choices=STORES)
    parser.add_argument("--wall", action="store_true", help="seconds of the clock")
    options = parser.parse_args()
    print(f"{options.nodes:,} nodes and a join; microseconds for each: submit + run = all")
    for store in options.store or STORES:
        measure(store, options.nodes, options.rounds, wall=options.wall)


def measure(store: str, nodes: int, rounds: int, *, wall: bool) -> None:
    ratios = []
    with a_store(store) as (new_url, server):
        clock = time.perf_counter if wall else lambda: processor_time(server)
        for _ in range(rounds):
            plain, joined = one_round(new_url(), nodes, clock)
            ratios.append(sum(joined) / sum(plain))
            shown = [
                f"{1e6 * a / nodes:6.0f} + {1e6 * b / nodes:6.0f} = {1e6 * (a + b) / nodes:6.0f}"
                for a, b in (plain, joined)
            ]
            print(f"{store:8} job {shown[0]}   node {shown[1]}   ratio {ratios[-1]:.2f}")
    print(f"{store:8} median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
