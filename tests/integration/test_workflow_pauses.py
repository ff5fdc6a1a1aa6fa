"""Paused workflows: on every store, and with workers that hold jobs of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PATIENCE, wait_for

from taskmq import App, Config, ConfigError, current_task
from taskmq.states import JobState
from taskmq.testing import TransportWrapper, worker_for
from taskmq.transport import MAX_YIELDS, Capabilities, Release, Reservation
from taskmq.workflow import Workflow, WorkflowRun, Workflows, WorkflowState

from .conftest import RunWorker

S = JobState


@pytest.fixture(params=["memory", "sqlite", "redis", "postgres"])
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    embedded = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}
    url = embedded.get(request.param) or request.getfixturevalue(f"{request.param}_url")
    with App(Config(transport=url)) as app:
        yield app


class Log:
    """What ran, in order; a task that says "stop" pauses its own workflow while it runs."""

    def __init__(self, app: App) -> None:
        self.ran: list[str] = []
        self.note = app.task(name="note")(self._note)
        self.split = app.task(name="split")(self._split)
        self.grow = app.task(name="grow")(self._grow)
        self.join = app.task(name="join")(self._join)

    def _begin(self, name: str) -> None:
        self.ran.append(name)
        if name == "stop":
            context = current_task()
            assert WorkflowRun.find(context.app, context.envelope.workflow or "").pause(by="ann")

    def _note(self, name: str, *_: Any) -> str:
        self._begin(name)
        return name

    def _split(self, name: str, *_: Any) -> Any:
        self._begin(name)
        inner = Workflow()
        inner.add(self.join, [inner.add(self.note, f"{name}.{each}") for each in "ab"])
        return current_task().replace(inner)

    def _grow(self, name: str, *_: Any) -> Any:
        self._begin(name)
        return current_task().extend(self.note.call(f"{name}+"), result=name)

    def _join(self, names: list[str]) -> list[str]:
        self._begin("join")
        return sorted(names)


def work(app: App) -> None:
    with worker_for(app) as worker:
        worker.run_until_idle(timeout=30)


def state_in_list(app: App, run: WorkflowRun) -> WorkflowState:
    return next(state for head, state in Workflows(app).all() if head.id == run.id)


def test_nothing_more_begins_and_all_of_it_goes_on(app: App) -> None:
    """Nested nodes, a replacement, a member that was added, and what waits for them; a job of
    another workflow and one of none are not held up."""
    log = Log(app)
    inner = Workflow("inner")
    inner.add(log.note, "nested", inner.add(log.note, "stop"))
    flow = Workflow("outer")
    first = flow.add(log.grow, "grow")
    last = flow.add(log.join, [first, flow.add(inner, after=first)])
    flow.add(log.split, "split", last)
    run = flow.submit(app)
    work(app)
    assert log.ran == ["grow", "grow+", "stop"]
    status = run.status()
    assert status.paused is not None
    assert (status.state, status.paused.by) == (WorkflowState.PAUSED, "ann")
    assert state_in_list(app, run) is WorkflowState.PAUSED

    other = Workflow("other")
    other.add(log.note, "other")
    others = [other.submit(app).result, log.note.delay("plain")]
    work(app)
    assert [job.get(timeout=PATIENCE) for job in others] == ["other", "plain"]
    assert "nested" not in log.ran

    assert (run.pause(), run.resume(), run.resume()) == (False, True, False)
    assert state_in_list(app, run) is WorkflowState.RUNNING
    del log.ran[:]
    work(app)
    assert run.get(timeout=PATIENCE) == ["split.a", "split.b"]
    assert log.ran[:2] == ["nested", "join"]
    assert state_in_list(app, run) is WorkflowState.SUCCEEDED


@pytest.mark.parametrize("kind", ["split", "grow"])
def test_what_a_node_adds_while_its_workflow_is_paused_waits(app: App, kind: str) -> None:
    log = Log(app)
    flow = Workflow()
    flow.add(log.join, [flow.add(getattr(log, kind), "stop")])
    run = flow.submit(app)
    work(app)
    assert log.ran == ["stop"]
    assert run.status().counts == (
        {"WAITING": 3, "QUEUED": 2}
        if kind == "split"
        else {"SUCCEEDED": 1, "QUEUED": 1, "WAITING": 1}
    )
    run.resume()
    work(app)
    assert run.status().state is WorkflowState.SUCCEEDED


def test_a_paused_workflow_can_be_cancelled(app: App) -> None:
    log = Log(app)
    flow = Workflow()
    flow.add(log.join, [flow.add(log.note, name) for name in ("a", "b")])
    run = flow.submit(app)
    assert run.pause(reason="wrong names")
    work(app)
    assert run.cancel() == 3
    assert run.status().state is WorkflowState.REVOKED
    run.resume()
    work(app)
    assert log.ran == []
    assert set(run.states().values()) == {S.REVOKED}


def test_a_wide_one_goes_on_in_order(app: App) -> None:
    """More jobs than one step gives back."""
    ran: list[int] = []
    step = app.task(name="step")(ran.append)
    flow = Workflow()
    flow.map(step, range(2500))
    run = flow.submit(app)
    run.pause()
    work(app)
    assert ran == []
    run.resume()
    with worker_for(app, concurrency=1) as worker:
        worker.run_until_idle(timeout=30)
    assert ran == list(range(2500))


class Simple(TransportWrapper):
    """A store that cannot pause workflows."""

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(durable=False, shared=False, workflows=True)


def test_a_store_that_cannot_says_so() -> None:
    inner = App(Config(transport="memory://"))
    app = App(inner.config, transport=Simple(inner.transport))
    flow = Workflow()
    flow.add(Log(app).note, "a")
    run = flow.submit(app)
    for what in (run.pause, run.resume):
        with pytest.raises(ConfigError, match="a workflow is to be paused, which the store"):
            what()
    assert run.status().state is WorkflowState.RUNNING
    assert state_in_list(app, run) is WorkflowState.RUNNING
    work(app)
    assert run.status().paused is None


# -- what a worker holds ---------------------------------------------------------------------------


class Backlog:
    """One slot, busy; the worker behind it holds nodes of a workflow, which it was given back so
    often before that it keeps them."""

    def __init__(self, app: App) -> None:
        self.begun, self.go = threading.Event(), threading.Event()
        self.ran: list[int] = []
        quick = app.task(name="quick", priority=9)(lambda: None)
        block = app.task(name="block", priority=5)(self._block)
        step = app.task(name="step")(self.ran.append)
        flow = Workflow()
        flow.map(step, range(5))
        self.run = flow.submit(app)
        ids = [node.id for node in self.run.plan.nodes[:5]]
        wanted = Reservation(queues={"default": 1}, worker="w", lease=60.0, limit=5, jobs=ids)
        for _ in range(MAX_YIELDS):
            app.transport.settle([Release(one) for one in app.transport.reserve(wanted)])
        quick.submit_many([()] * 50)  # so that the worker fetches many at once
        self.blocking = block.delay()

    def _block(self) -> None:
        self.begun.set()
        assert self.go.wait(PATIENCE)

    def steps(self) -> set[JobState]:
        return set(list(self.run.states().values())[:5])


def test_a_worker_gives_back_what_has_not_started(run_worker: RunWorker) -> None:
    with App(Config(transport="memory://", concurrency=1)) as app:
        backlog = Backlog(app)
        run_worker(app)
        assert backlog.begun.wait(PATIENCE)
        assert backlog.steps() == {S.RUNNING}  # held, unstarted
        backlog.run.pause()
        wait_for(lambda: backlog.steps() == {S.QUEUED})
        assert backlog.blocking.state is S.RUNNING
        backlog.go.set()
        assert backlog.blocking.wait(PATIENCE) is S.SUCCEEDED
        assert backlog.ran == []
        backlog.run.resume()
        assert backlog.run.result.wait(PATIENCE) is S.SUCCEEDED
        assert backlog.ran == list(range(5))
        assert {job.deliveries for job in backlog.run.jobs()} == {1}
