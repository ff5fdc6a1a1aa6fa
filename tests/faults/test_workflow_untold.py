"""Delivery by a broker: a worker is killed when its settlement has taken effect in the state store,
and before the messages are sent of what that made ready. Nothing is lost, and nothing done again.

More than CI does: ``WORKFLOW_ROUNDS=50 pytest tests/faults/test_workflow_untold.py -s``.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.faults.crew import Crew

from taskmq import App, Config
from taskmq.states import JobState
from taskmq.workflow import Workflow, WorkflowRun

ROUNDS = int(os.environ.get("WORKFLOW_ROUNDS", "3"))
WIDTH = 6

APP = """
import contextlib, os, signal
from taskmq import App, Config
from taskmq.transports.amqp.delivery import Deliveries

app = App(Config.from_env())

def note(name):
    descriptor = os.open("effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{name} {os.getpid()}\\n".encode())
    os.close(descriptor)

@app.task(name="part", max_deliveries=1000)
def part(round, number):
    note(f"part-{round}-{number}")
    return number

@app.task(name="join", max_deliveries=1000, queue="joins")
def join(values, round):
    note(f"join-{round}")
    return sum(values)

announce = Deliveries.announce

def die_once(self, notices):
    # The first worker that is about to tell of a round's join dies.
    for notice in notices:
        if notice.queue == "joins":
            with contextlib.suppress(FileExistsError):
                os.close(os.open(f"killed-{notice.job}", os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
    announce(self, notices)

Deliveries.announce = die_once
"""


@pytest.fixture
def store_url(rabbitmq_url: str, tmp_path: Path) -> str:
    return f"{rabbitmq_url}?state=sqlite:///{tmp_path}/jobs.db"


@pytest.fixture
def app(store_url: str) -> Iterator[App]:
    app = App(Config(transport=store_url))

    @app.task(name="part")
    def part(round: int, number: int) -> int:
        raise NotImplementedError

    @app.task(name="join", queue="joins")
    def join(values: list[int], round: int) -> int:
        raise NotImplementedError

    yield app
    app.close()


def submit(app: App, number: int) -> WorkflowRun:
    flow = Workflow("untold")
    part = app.tasks["part"]
    parts = [flow.add(part, number, each) for each in range(WIDTH)]
    flow.add(app.tasks["join"], parts, number, name="join")
    return flow.submit(app)


def test_killed_between_the_settlement_and_its_messages(
    tmp_path: Path, store_url: str, app: App, measured: Callable[..., None]
) -> None:
    """Each join is due to a worker that dies before it can say so. It runs all the same, once; no
    part runs again whose result is stored."""
    crew = Crew(tmp_path, store_url, APP)
    try:
        crew.hire("--queues", "default")
        crew.hire("--queues", "joins")
        runs = []
        for number in range(ROUNDS):
            run = submit(app, number)
            runs.append(run)
            crew.wait(lambda run=run: run.result.state is JobState.SUCCEEDED, f"join {number}")  # type: ignore[misc]
            assert run.get(timeout=0) == sum(range(WIDTH))
    finally:
        crew.close()
    killed = len(list(tmp_path.glob("killed-*")))
    assert killed == ROUNDS
    effects = Counter(crew.effects())
    for number, run in enumerate(runs):
        assert effects[f"join-{number}"] == 1
        begun = sum(count for name, count in effects.items() if name.startswith(f"part-{number}-"))
        assert begun <= WIDTH + sum(record.reclaims for record in run.jobs())
    measured(rounds=ROUNDS, killed=killed)
