"""Workflows whose workers are killed: every join runs, on its last part, and once.

More than CI does: ``WORKFLOW_ROUNDS=200 pytest tests/faults/test_workflow_kills.py -s``.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.faults.crew import Crew
from tests.property.workflow_graphs import Interpreter, Shape, build, define

from taskmq import App, Config
from taskmq.plugins import open_transport
from taskmq.states import JobState
from taskmq.testing import FakeClock, WorkerCrashed, worker_for
from taskmq.workflow import Workflow, WorkflowRun

EVERY_STORE = True
BY_BROKER = (
    "test_fan_ins_whose_workers_are_killed",
    "test_random_graphs_whose_tasks_kill_their_workers",
)
ROUNDS = int(os.environ.get("WORKFLOW_ROUNDS", "3"))
SIMULATED = int(os.environ.get("WORKFLOW_SIMULATED_ROUNDS", "8"))
WIDTH = 100

APP = """
import os, signal
from taskmq import App, Config
from tests.faults.crew import Crew
from tests.property.workflow_graphs import define

app = App(Config.from_env())

def note(name):
    descriptor = os.open("effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{name} {os.getpid()}\\n".encode())
    os.close(descriptor)

define(app, note, lambda name: os.kill(os.getpid(), signal.SIGKILL))

@app.task(name="part", max_deliveries=1000)
def part(round, number):
    note(f"part-{round}-{number}")
    return number

@app.task(name="join", max_deliveries=1000)
def join(values, round):
    note(f"join-{round}")
    return sum(values)
"""


@pytest.fixture
def crew(tmp_path: Path, store_url: str) -> Iterator[Crew]:
    with App(Config(transport=store_url)) as app:
        if not app.transport.capabilities.workflows:
            pytest.skip("this store has no workflows")
    crew = Crew(tmp_path, store_url, APP)
    yield crew
    crew.close()


@pytest.fixture
def app(store_url: str) -> Iterator[App]:
    app = App(Config(transport=store_url))
    define(app, lambda name: None, lambda name: None)

    @app.task(name="part")
    def part(round: int, number: int) -> int:
        raise NotImplementedError

    @app.task(name="join")
    def join(values: list[int], round: int) -> int:
        raise NotImplementedError

    yield app
    app.close()


def test_fan_ins_whose_workers_are_killed(
    crew: Crew, app: App, measured: Callable[..., None]
) -> None:
    """In each round one of two workers is killed while the parts run. A join may be begun again
    only if whoever held it was killed; otherwise it runs once."""
    chance, again = random.Random(0), 0
    crew.hire()
    crew.hire()
    for number in range(ROUNDS):
        flow = Workflow("fan-in")
        parts = [flow.add(app.tasks["part"], number, each) for each in range(WIDTH)]
        flow.add(app.tasks["join"], parts, number, name="join")
        run = flow.submit()
        fatal, mark = chance.randrange(1, WIDTH), f"part-{number}-"
        crew.wait(
            lambda mark=mark, fatal=fatal: _count(crew, mark) >= fatal,  # type: ignore[misc]
            f"part {fatal} of round {number}",
        )
        crew.kill(chance)
        crew.hire()
        crew.wait(lambda run=run: run.result.state is JobState.SUCCEEDED, f"join {number}")  # type: ignore[misc]
        assert run.get(timeout=0) == sum(range(WIDTH))
        record = run.result.record
        assert record is not None
        joins = crew.effects().count(f"join-{number}")
        assert 1 <= joins <= 1 + record.reclaims
        again += joins - 1
    effects = Counter(crew.effects())
    assert all(effects[f"part-{n}-{each}"] for n in range(ROUNDS) for each in range(WIDTH))
    measured(rounds=ROUNDS, killed=crew.deaths, joins_begun_again=again)


def _count(crew: Crew, mark: str) -> int:
    return len({name for name in crew.effects() if name.startswith(mark)})


@pytest.mark.parametrize("seed", range(max(1, ROUNDS // 3)))
def test_random_graphs_whose_tasks_kill_their_workers(crew: Crew, app: App, seed: int) -> None:
    """SIGKILL in the midst of tasks, as the graph says: what comes of it is what a sequential
    interpreter says."""
    graph = Shape(seed, "finish").graph("", 4, 8, nesting=1)
    graph[0].deaths = 1
    interpreter = Interpreter("finish")
    expected = interpreter.run(graph)
    flow = Workflow("random")
    build(app, flow, graph)
    run = flow.submit()
    crew.hire()
    crew.hire()
    crew.wait(run.is_finished, "the end")
    states = run.states()
    assert {step.name: states[step.name].value for step in graph} == {
        step.name: each.state for step, each in zip(graph, expected, strict=True)
    }
    _check_values(app, run, {s.name: e.value for s, e in zip(graph, expected, strict=True)})
    assert set(crew.effects()) == interpreter.effects
    assert crew.deaths >= 1


def _check_values(app: App, run: WorkflowRun, values: dict[str, Any]) -> None:
    names = {node.id: node.name for node in run.plan.nodes}
    for job in run.jobs():
        if names.get(job.id) in values and job.result is not None:
            assert app.codecs.decode(job.result) == values[names[job.id]]


# -- the same, simulated ---------------------------------------------------------------------------


def test_many_fan_ins_with_simulated_deaths(store_url: str, measured: Callable[..., None]) -> None:
    """A worker dies after a random part of each round has run, before the store hears of it."""
    clock, chance = FakeClock(), random.Random(1)
    if not store_url.startswith("sqlite"):
        pytest.skip("its clock is its own")
    transport = open_transport(store_url, clock=clock)
    app = App(Config(transport=store_url, lease=30.0), transport=transport, clock=clock)
    joins: Counter[int] = Counter()
    doomed: set[tuple[int, int]] = set()

    @app.task(name="part", max_deliveries=1000)
    def part(round: int, number: int) -> int:
        if (round, number) in doomed:
            doomed.discard((round, number))
            raise WorkerCrashed(f"{round}-{number}")
        return number

    @app.task(name="join", max_deliveries=1000)
    def join(values: list[int], round: int) -> int:
        joins[round] += 1
        return sum(values)

    crashes = 0
    for number in range(SIMULATED):
        doomed |= {(number, chance.randrange(WIDTH)) for _ in range(3)}
        flow = Workflow("fan-in")
        flow.add(join, [flow.add(part, number, each) for each in range(WIDTH)], number)
        run = flow.submit(app)
        with worker_for(app) as worker:
            while not run.is_finished():
                worker.run_until_idle()
                clock.advance(30.0)
            crashes += worker.crashes
        assert run.get(timeout=0) == sum(range(WIDTH))
    measured(rounds=SIMULATED, killed=crashes)
    assert joins == dict.fromkeys(range(SIMULATED), 1)
    app.close()
