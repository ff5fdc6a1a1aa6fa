"""What a workflow's handle, and the list of them, say while it runs and afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskmq import App, Config, Retry, current_task, plans
from taskmq.errors import UnknownWorkflow
from taskmq.plans import GRACE
from taskmq.records import JobFilter
from taskmq.states import JobState
from taskmq.testing import FakeClock, TransportWrapper, worker_for
from taskmq.workflow import Workflow, WorkflowRun, Workflows, WorkflowState

S = JobState
DAY = 86_400.0


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["memory", "sqlite"])
def app(request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock) -> Iterator[App]:
    url = "memory://" if request.param == "memory" else f"sqlite:///{tmp_path}/jobs.db"
    app = App(Config(transport=url, prefetch=1, concurrency=1), clock=clock)

    @app.task(name="take", retry=Retry(max_attempts=2, base=3.0, jitter=False))
    def take(seconds: float, *_: Any, fails: int = 0) -> float:
        clock.advance(seconds)
        if current_task().attempt <= fails:
            raise ValueError("not yet")
        return seconds

    @app.task(name="split")
    def split(count: int) -> Any:
        inner = Workflow("inner")
        inner.map(app.tasks["take"], [1.0] * count)
        return current_task().replace(inner)

    yield app
    app.close()


def work(app: App) -> None:
    with worker_for(app) as worker:
        worker.run_until_idle()


def test_a_workflow_before_it_runs(app: App, clock: FakeClock) -> None:
    flow = Workflow("report")
    first = flow.add(app.tasks["take"], 1, name="first")
    flow.add(app.tasks["take"], first, name="last")
    status = flow.submit().status()
    assert (status.name, status.state, status.done, status.total) == (
        "report",
        WorkflowState.RUNNING,
        0,
        2,
    )
    first_node, last_node = status.nodes
    assert (first_node.state, first_node.queued_at) == (S.QUEUED, clock.now())
    assert (last_node.state, last_node.queued_at, last_node.after) == (S.WAITING, None, ("first",))
    assert status.counts == {"QUEUED": 1, "WAITING": 1}
    assert status.finished_at is None


def test_timings_and_the_critical_path(app: App, clock: FakeClock) -> None:
    begun, take = clock.now(), app.tasks["take"]
    flow = Workflow()
    short, long = flow.add(take, 1, name="short"), flow.add(take, 10, name="long")
    flow.add(take, 1, short, name="aside")
    flow.add(take, 2, short, long, name="last")
    run = flow.submit()
    clock.advance(5)
    work(app)
    status = run.status()
    nodes = {node.name: node for node in status.nodes}
    assert nodes["long"].queued_at == begun
    assert nodes["long"].started_at == begun + 5 + 1
    assert nodes["long"].finished_at == begun + 16
    assert [leg.name for leg in status.critical_path] == ["long", "last", "results"]
    assert [(leg.waited, leg.ran) for leg in status.critical_path] == [(6, 10), (1, 2), (0, 0)]
    assert status.critical_seconds == 19
    assert (status.state, status.done, status.total) == (WorkflowState.SUCCEEDED, 5, 5)
    assert status.finished_at == clock.now()


def test_attempts_and_errors(app: App, clock: FakeClock) -> None:
    flow = Workflow()
    bad = flow.add(app.tasks["take"], 0, fails=9, name="bad")
    flow.add(app.tasks["take"], bad, name="last")
    run = flow.submit()
    work(app)
    bad_node, _ = run.status().nodes
    assert (bad_node.state, bad_node.attempt) == (S.RETRYING, 2)
    assert bad_node.error == "builtins.ValueError: not yet"
    clock.advance(10)
    work(app)
    status = run.status()
    assert status.state is WorkflowState.FAILED
    assert [node.state for node in status.nodes] == [S.FAILED, S.SKIPPED]
    assert run.retry(["bad"]) == 1
    assert run.status().state is WorkflowState.RUNNING


def test_what_was_added_stands_under_its_node(app: App) -> None:
    flow = Workflow()
    flow.add(app.tasks["split"], 3, name="split")
    run = flow.submit()
    work(app)
    (node,) = run.status().nodes
    assert node.added == {"SUCCEEDED": 4}  # three, and what makes a list of theirs
    assert run.status().total == 5


def test_a_retry_of_a_node_replays_what_it_has_added(app: App, clock: FakeClock) -> None:
    flow = Workflow()

    @app.task(name="replaced")
    def replaced() -> Any:
        return current_task().replace(app.tasks["take"].call(1.0, fails=2))

    flow.add(app.tasks["replaced"], name="node")
    run = flow.submit()
    for _ in range(2):
        work(app)
        clock.advance(10)
    assert run.status().state is WorkflowState.FAILED
    assert run.retry(["node"]) == 1


class Counting(TransportWrapper):
    calls = 0

    def around(self, operation: str, call: Any) -> Any:
        self.calls += 1
        return call()


def test_a_status_of_many_nodes_takes_few_round_trips(app: App) -> None:
    flow = Workflow()
    flow.map(app.tasks["take"], [0.0] * 2_000)
    run = flow.submit()
    app._transport = counting = Counting(app.transport)
    assert run.status().total == 2_001
    assert counting.calls <= 4
    counting.calls = 0
    assert not run.is_finished()
    assert Workflows(app).all()[0][1] is WorkflowState.RUNNING
    assert counting.calls <= 8


def test_the_list_is_newest_first(app: App, clock: FakeClock) -> None:
    for name in ("a", "b", "c"):
        flow = Workflow(name)
        flow.add(app.tasks["take"], 0, fails=9 if name == "b" else 0)
        flow.submit()
        clock.advance(1)
    for _ in range(2):
        work(app)
        clock.advance(5)
    found = [(head.name, state.value) for head, state in Workflows(app).all()]
    assert found == [("c", "SUCCEEDED"), ("b", "FAILED"), ("a", "SUCCEEDED")]
    assert [head.name for head, _ in Workflows(app).all(1)] == ["c"]
    assert [head.name for head, _ in Workflows(app).all(name="a")] == ["a"]


def test_a_cancelled_one_is_revoked(app: App) -> None:
    flow = Workflow()
    flow.add(app.tasks["take"], flow.add(app.tasks["take"], 1))
    run = flow.submit()
    run.cancel(by="ann")
    assert run.status().state is WorkflowState.REVOKED
    assert [state.value for _, state in Workflows(app).all()] == ["REVOKED"]


def test_a_plan_goes_with_the_last_of_its_jobs(app: App, clock: FakeClock) -> None:
    flow = Workflow()
    flow.add(app.tasks["take"], 1)
    old = flow.submit()
    work(app)
    clock.advance(30 * DAY)
    flow = Workflow()
    flow.add(app.tasks["take"], 1)
    new = flow.submit()
    app.transport.maintain()
    assert not app.transport.find(JobFilter(workflow=old.id))
    assert [head.id for head, _ in Workflows(app).all()] == [new.id]
    with pytest.raises(UnknownWorkflow, match="none of its jobs is left"):
        WorkflowRun.find(app, old.id)
    assert Workflows(app).prune() == 0


def test_a_plan_whose_jobs_are_on_their_way_stays(app: App, clock: FakeClock) -> None:
    flow = Workflow()
    flow.add(app.tasks["take"].call(1).options(result_ttl=0.0))
    flow.submit()
    work(app)
    assert len(Workflows(app).all()) == 1
    assert Workflows(app).prune() == 0
    clock.advance(GRACE + 1)
    assert Workflows(app).prune() == 1


def test_a_worker_deletes_plans_in_passing(
    app: App, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("taskmq.worker.loop.PLANS_INTERVAL", 0.0)
    flow = Workflow()
    flow.add(app.tasks["take"].call(1).options(result_ttl=0.0))
    run = flow.submit()
    work(app)
    assert plans.load(app.transport, run.id) is not None
    clock.advance(GRACE + 1)
    app.tasks["take"].delay(0)  # a worker with nothing to do at all leaves at once
    work(app)
    assert plans.load(app.transport, run.id) is None
