"""The app under measurement, and its worker: ``python -m tests.bench.tasks URL POOL SLOTS [STEP]``.

With STEP, the worker says after every so many jobs how many it has begun.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence

from taskmq import App, Config
from taskmq.transport import Delivery, Transport
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
    """An app with the tasks of the benchmarks."""
    config = Config.from_env({}, transport=url, pool=pool, concurrency=concurrency)
    app = App(config, transport=transport)
    app.task(name="bench.noop")(noop)
    app.task(name="bench.fail")(fail)
    app.task(name="bench.started")(started)
    app.task(name="bench.cpu")(cpu)
    return app


def noop(number: int) -> None:
    """Nothing: what is measured is the queue."""


def fail(number: int, size: int) -> None:
    """Fail two frames deep, each with ``size`` bytes in a local variable. Every second job ties
    error and frames to a ring, as ``except`` clauses that keep their error do."""
    page = b"x" * size
    try:
        fail_deeper(number, size)
    except ValueError as error:
        kept = error if number % 2 else None
        raise RuntimeError(f"{len(page)} bytes, {kept}") from error


def fail_deeper(number: int, size: int) -> None:
    page = b"y" * size
    raise ValueError(f"job {number}: {len(page)} bytes")


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


class SayProgress(SayReady):
    """Prints how many jobs the worker has begun, about every ``step`` jobs."""

    def __init__(self, step: int) -> None:
        self.step, self.begun, self.next = step, 0, 0

    def on_deliveries(self, worker: Worker, deliveries: Sequence[Delivery]) -> None:
        self.begun += len(deliveries)
        if self.begun >= self.next:
            self.next += self.step
            print(self.begun, flush=True)


def main() -> None:
    url, pool, concurrency, *step = sys.argv[1:]
    hook = SayProgress(int(step[0])) if step else SayReady()
    # Hundreds of thousands of failures are no news here.
    logging.getLogger("taskmq").setLevel(logging.CRITICAL)
    worker = Worker(make_app(url, pool=pool, concurrency=int(concurrency)), hook=hook)
    with handle_signals(worker):
        worker.run()


if __name__ == "__main__":
    main()
