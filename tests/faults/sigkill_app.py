"""The app of test_sigkill.py, and its worker process: ``python sigkill_app.py URL FILE``."""

import os
import sys
import time
from pathlib import Path

from taskmq import App, Config
from taskmq.worker import Worker, WorkerHook
from taskmq.worker.signals import handle_signals

LEASE = 1.0
CONCURRENCY = 8
TAKES = 0.004


def make_app(url: str, file: Path) -> App:
    """One task: it notes in ``file`` that it ran, and when, and takes four milliseconds."""
    config = Config(
        transport=url, concurrency=CONCURRENCY, lease=LEASE, heartbeat_interval=LEASE / 2
    )
    app = App(config)

    @app.task(name="note")
    def note(number: int) -> int:
        line = f"{number} {time.monotonic()}\n".encode()
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line)  # one write, appended whole, whoever else writes
        os.close(descriptor)
        time.sleep(TAKES)
        return number

    return app


class SayReady(WorkerHook):
    def on_ready(self, worker: Worker) -> None:
        print("ready", flush=True)


if __name__ == "__main__":
    worker = Worker(make_app(sys.argv[1], Path(sys.argv[2])), hook=SayReady())
    with handle_signals(worker):
        worker.run()
