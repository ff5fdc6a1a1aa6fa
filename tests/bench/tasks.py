"""The app under measurement, and its worker: ``python -m tests.bench.tasks URL POOL SLOTS``."""

from __future__ import annotations

import sys
import time

from taskmq import App, Config
from taskmq.transport import Transport
from taskmq.worker import Worker, WorkerHook
from taskmq.worker.signals import handle_signals

POOLS = ("threads", "solo", "processes")
CONCURRENCY = 8


def make_app(
    url: str,
    transport: Transport | None = None,
    *,
    pool: str = "threads",
    concurrency: int = CONCURRENCY,
) -> App:
    """An app with the three tasks of the benchmarks."""
    config = Config.from_env({}, transport=url, pool=pool, concurrency=concurrency)
    app = App(config, transport=transport)
    app.task(name="bench.noop")(noop)
    app.task(name="bench.started")(started)
    app.task(name="bench.cpu")(cpu)
    return app


def noop(number: int) -> None:
    """Nothing: what is measured is the queue."""


def started() -> float:
    """When the job started, on a clock that all processes of the machine share."""
    return time.monotonic()


def cpu() -> float:
    """CPU seconds that this process has used."""
    return time.process_time()


class SayReady(WorkerHook):
    """Prints one line, so that whoever started the process knows."""

    def on_ready(self, worker: Worker) -> None:
        print("ready", flush=True)


def main() -> None:
    url, pool, concurrency = sys.argv[1:]
    worker = Worker(make_app(url, pool=pool, concurrency=int(concurrency)), hook=SayReady())
    with handle_signals(worker):
        worker.run()


if __name__ == "__main__":
    main()
