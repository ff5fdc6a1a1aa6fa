"""The app of test_flow_processes.py, and its worker process: ``python flow_app.py URL FILE``."""

import os
import sys
import time
from pathlib import Path

from taskmq import App, Config
from taskmq.worker import Worker, WorkerHook
from taskmq.worker.signals import handle_signals

LIMIT = 2
TAKES = 0.01


def make_app(url: str, file: Path) -> App:
    """One task of which two may run at once; it notes in ``file`` when it began and ended."""
    app = App(Config(transport=url, concurrency=4, lease=2.0, heartbeat_interval=1.0))

    @app.task(name="use", concurrency_key="resource:{name}", concurrency_limit=LIMIT)
    def use(name: str) -> None:
        began = time.monotonic()
        time.sleep(TAKES)
        line = f"{name} {began} {time.monotonic()}\n".encode()
        descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(descriptor, line)  # one write, appended whole, whoever else writes
        os.close(descriptor)

    return app


class SayReady(WorkerHook):
    def on_ready(self, worker: Worker) -> None:
        print("ready", flush=True)


if __name__ == "__main__":
    with make_app(sys.argv[1], Path(sys.argv[2])) as app:
        worker = Worker(app, hook=SayReady())
        with handle_signals(worker):
            worker.run()
