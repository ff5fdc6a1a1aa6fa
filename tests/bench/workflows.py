"""What a node of a workflow costs, beside a plain job on the same store in the same run.

    python -m tests.bench.workflows [--nodes 10000] [--rounds 3] [--store sqlite]

Each round submits and runs so many plain jobs, then a fan-out of as many with a join. Compare the
ratios: the figures are this machine's, and of this minute.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

from taskmq import App, Config
from taskmq.worker import Worker
from taskmq.workflow import Workflow

STORES = ("memory", "sqlite")


def make_app(url: str) -> App:
    app = App(Config(transport=url, pool="solo"))

    @app.task(name="noop")
    def noop(number: int) -> int:
        return number

    @app.task(name="join")
    def join(values: list[int]) -> int:
        return len(values)

    return app


def timed(app: App, submit: Callable[[], Any]) -> tuple[float, float]:
    """Seconds to submit, and to run to the end."""
    began = time.perf_counter()
    submit()
    submitted = time.perf_counter()
    Worker(app).run_until_idle(3600)
    return submitted - began, time.perf_counter() - submitted


def one_round(url: str, nodes: int) -> tuple[tuple[float, float], tuple[float, float]]:
    with make_app(url) as app:
        noop, join = app.tasks["noop"], app.tasks["join"]
        plain = timed(app, lambda: noop.submit_many([(number,) for number in range(nodes)]))
        flow = Workflow("fan-out")
        flow.add(join, flow.map(noop, range(nodes)))
        runs: list[Any] = []
        joined = timed(app, lambda: runs.append(flow.submit()))
        assert runs[0].get(timeout=60) == nodes
        return plain, joined


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.workflows", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--nodes", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--store", action="append", choices=STORES)
    options = parser.parse_args()
    print(f"{options.nodes:,} nodes and a join; microseconds for each: submit + run = all")
    for store in options.store or STORES:
        ratios = []
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory(prefix="taskmq-bench-") as folder:
                url = "memory://" if store == "memory" else f"sqlite:///{folder}/jobs.db"
                plain, joined = one_round(url, options.nodes)
            ratios.append(sum(joined) / sum(plain))
            shown = [
                f"{1e6 * a / options.nodes:6.0f} + {1e6 * b / options.nodes:6.0f}"
                f" = {1e6 * (a + b) / options.nodes:6.0f}"
                for a, b in (plain, joined)
            ]
            print(f"{store:8} job {shown[0]}   node {shown[1]}   ratio {ratios[-1]:.2f}")
        print(f"{store:8} median ratio {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
