"""What a task of Celery's programs costs, in a process of its own: who listens to signals, and what
else a program has set, counts for all apps of a process.

    python -m tests.integration.shim_costs redis://localhost/0 1000

Prints how many functions of Python are called, by ``delay`` and by the run of the task, in all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from types import FrameType

from celery import Celery
from taskmq.worker import Worker
from taskmq_celery.engine import engine_for


def functions_of(work: Callable[[], object]) -> int:
    """How many functions of Python are called in this thread."""
    functions = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal functions
        functions += event == "call"

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return functions


def measured(url: str, jobs: int) -> tuple[int, int]:
    """Of all that is sent, and of all that is run."""

    def drain() -> None:
        Worker(engine_for(app, pool="solo"), queues=["celery"]).run_until_idle(60)

    with Celery("costs", broker=url, set_as_current=False) as app:
        task = app.task(lambda number: number, name="noop")
        for _ in range(2):  # what only a first call has to do
            task.delay(0)
            drain()
        sent = functions_of(lambda: [task.delay(number) for number in range(jobs)])
        return sent, functions_of(drain)


def measured_apart(url: str, jobs: int) -> tuple[float, float]:
    """The same for one job, measured in a new process."""
    command = [sys.executable, "-m", "tests.integration.shim_costs", url, str(jobs)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    sent, ran = json.loads(answer.stdout)
    return sent / jobs, ran / jobs


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], int(sys.argv[2]))))
