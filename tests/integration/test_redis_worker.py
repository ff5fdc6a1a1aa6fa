"""A worker on Redis lives through the end of its server, and finishes everything."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from tests import services
from tests.waiting import PATIENCE, wait_for

from taskmq import App, Config
from taskmq.errors import TransportError
from taskmq.records import JobFilter
from taskmq.states import JobState
from taskmq.worker import Worker

Start = Callable[..., Any]
ROUNDS, JOBS = 3, 100


def _submit(run: Any, numbers: list[int]) -> None:
    """Submit until everything is stored. A batch whose answer was lost is stored twice."""
    while numbers:
        try:
            run.submit_many([(number,) for number in numbers[:10]])
        except TransportError:
            continue
        del numbers[:10]


def test_restarts_of_the_server_lose_nothing(start_service: Start) -> None:
    server = start_service(services.Redis, {"appendonly": "yes", "appendfsync": "always"})
    seen: set[int] = set()
    app = App(Config.from_env({}, transport=f"{server.url}?timeout=2", concurrency=4))
    run = app.task(name="demo.see")(seen.add)
    with app:
        worker = Worker(app)
        thread = threading.Thread(target=worker.run)
        thread.start()
        for number in range(ROUNDS):
            numbers = list(range(number * JOBS, (number + 1) * JOBS))
            submitter = threading.Thread(target=_submit, args=(run, numbers))
            submitter.start()
            # All of the earlier rounds may have run already, so that one more is of this round.
            wait_for(lambda first=number * JOBS: len(seen) > first, "jobs are run")  # type: ignore[misc]  # bound in this round
            server.kill()
            server.restart()
            submitter.join(PATIENCE)
        wait_for(lambda: len(seen) == ROUNDS * JOBS, "every job has run")
        wait_for(lambda: _open(app) == 0, "every job is settled")
        worker.stop()
        thread.join(PATIENCE)
        assert not thread.is_alive()


def _open(app: App) -> int:
    states = (JobState.QUEUED, JobState.RUNNING, JobState.RETRYING)
    return len(app.transport.find(JobFilter(states=states, limit=ROUNDS * JOBS)))
