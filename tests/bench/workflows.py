"""What a node of a workflow costs, beside a plain job on the same store in the same run.

    python -m tests.bench.workflows [--nodes 10000] [--rounds 3] [--store sqlite] [--wall]

Each round submits and runs so many plain jobs, then a fan-out of as many with a join. Compare the
ratios: the figures are this machine's, and of this minute. They are processor time, of the server
too where there is one, so that a busy machine spoils less; ``--wall`` measures by the clock.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

from taskmq import App, Config
from taskmq.worker import Worker
from taskmq.workflow import Workflow

from .processes import cpu_seconds
from .stores import a_store

STORES = ("memory", "sqlite", "redis", "postgres")
Clock = Callable[[], float]


def processor_time(server: int | None) -> float:
    """Of this process, and of a server with its children, dead or alive."""
    return time.process_time() + (0.0 if server is None else cpu_seconds([server]))


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
    with a_store(store, fsync=False) as place:
        clock = time.perf_counter if wall else lambda: processor_time(place.server)
        for _ in range(rounds):
            plain, joined = one_round(place.new_url(), nodes, clock)
            ratios.append(sum(joined) / sum(plain))
            shown = [
                f"{1e6 * a / nodes:6.0f} + {1e6 * b / nodes:6.0f} = {1e6 * (a + b) / nodes:6.0f}"
                for a, b in (plain, joined)
            ]
            print(f"{store:8} job {shown[0]}   node {shown[1]}   ratio {ratios[-1]:.2f}")
    print(f"{store:8} median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
