"""Random workflows, run by workers that die, come to what a sequential interpreter says of them.

The interpreter knows nothing of the engine: it walks the same description, node after node. More
than CI does: ``WORKFLOW_EXAMPLES=1000 pytest tests/property/test_workflow_dags.py``.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import services
from tests.property.workflow_graphs import Ended, Graph, Interpreter, Shape, build, define
from tests.servers import fresh_name

from taskmq import App, Config
from taskmq.errors import ResultError
from taskmq.ids import new_id, origin_of
from taskmq.states import JobState
from taskmq.testing import FakeClock, TransportWrapper, WorkerCrashed, worker_for
from taskmq.transport import (
    Ack,
    DeadLetter,
    Delegate,
    Exchange,
    Reservation,
    Settled,
    Settlement,
    Transport,
)
from taskmq.workflow import OnFailure, Workflow, WorkflowRun

EXAMPLES = int(os.environ.get("WORKFLOW_EXAMPLES", "30"))
ON_SERVERS = BY_BROKER = max(1, EXAMPLES // 6)
STORES = ("memory", "sqlite")
LEASE = 30.0
S = JobState

# -- the engine ------------------------------------------------------------------------------------


class Ledger(TransportWrapper):
    """Counts the settlements that end a delivery for good and that took effect."""

    def __init__(self, inner: Transport) -> None:
        super().__init__(inner)
        self.settled: Counter[str] = Counter()

    def exchange(
        self, settlements: Sequence[Settlement] = (), reservation: Reservation | None = None
    ) -> Exchange:
        answer = super().exchange(settlements, reservation)
        self._note(settlements, answer.settled)
        return answer

    def settle(self, settlements: Sequence[Settlement]) -> Sequence[Settled]:
        answer = super().settle(settlements)
        self._note(settlements, answer)
        return answer

    def _note(self, settlements: Sequence[Settlement], answer: Sequence[Settled]) -> None:
        for settlement, settled in zip(settlements, answer, strict=True):
            is_final = isinstance(settlement, (Ack, DeadLetter, Delegate))
            if is_final and settled is Settled.DONE:
                self.settled[settlement.delivery.job_id] += 1


class Engine:
    """An app whose tasks do what a description says."""

    def __init__(self, url: str) -> None:
        self.clock = FakeClock()
        config = Config(transport=url, lease=LEASE, concurrency=4)
        self.app = App(config, clock=self.clock)
        self.ledger = Ledger(self.app.transport)
        self.app._transport = self.ledger
        self.effects: Counter[str] = Counter()
        define(self.app, self.note, self.die)

    def note(self, name: str) -> None:
        self.effects[name] += 1

    def die(self, name: str) -> None:
        raise WorkerCrashed(name)

    def submit(self, graph: Graph, on_failure: OnFailure) -> WorkflowRun:
        flow = Workflow("random", on_failure=on_failure)
        build(self.app, flow, graph)
        return flow.submit(self.app)

    def work(self, run: WorkflowRun) -> None:
        """Until nothing of it is left to do. Whoever dies leaves its jobs to their leases."""
        with worker_for(self.app) as worker:
            for _ in range(10_000):
                worker.run_until_idle()
                if run.is_finished():
                    break
                self.clock.advance(LEASE)
        assert run.is_finished()

    def close(self) -> None:
        self.app.close()


# -- the tests -------------------------------------------------------------------------------------


@contextmanager
def engine_on(store: str) -> Iterator[Engine]:
    """On a new store; ``store`` is its name, or the URL of a broker before a new one, or that of a
    server (a database is used again: what is in it has ended)."""
    with tempfile.TemporaryDirectory(prefix="taskmq-dags-") as folder:
        url = "memory://" if store == "memory" else f"sqlite:///{folder}/jobs.db"
        if store.startswith("amqp:"):
            url = f"{store}?namespace={new_id()}&queue_expires=20&state={url}"
        elif store not in STORES:
            url = f"{store}?namespace={new_id()}" if store.startswith("redis:") else store
        engine = Engine(url)
        try:
            yield engine
        finally:
            engine.close()


def outcome(run: WorkflowRun) -> Any:
    try:
        return run.get(timeout=0)
    except ResultError as error:
        return type(error)


@pytest.fixture(scope="module")
def broker_url(rabbitmq_server: services.RabbitMQ) -> Iterator[str]:
    name = fresh_name()
    yield rabbitmq_server.create_vhost(name)
    rabbitmq_server.delete_vhost(name)


@pytest.fixture(scope="module", params=["redis", "postgres"])
def server_url(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "redis":
        yield request.getfixturevalue("redis_server").url
        return
    server: services.Postgres = request.getfixturevalue("postgres_server")
    name = f"dags_{os.getpid()}"  # several processes run tests
    yield server.create_database(name)
    server.drop_database(name)


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("on_failure", ["finish", "continue"])
@settings(max_examples=EXAMPLES)
@given(st.integers(1, 6), st.integers(1, 50), st.integers(0, 2**32))
def test_random_graphs(
    store: str, on_failure: OnFailure, depth: int, width: int, seed: int
) -> None:
    compare(store, on_failure, depth, width, seed)


@pytest.mark.parametrize("on_failure", ["finish", "continue"])
@settings(max_examples=ON_SERVERS)
@given(st.integers(1, 6), st.integers(1, 50), st.integers(0, 2**32))
def test_random_graphs_on_servers(
    server_url: str, on_failure: OnFailure, depth: int, width: int, seed: int
) -> None:
    compare(server_url, on_failure, depth, width, seed)


@pytest.mark.parametrize("on_failure", ["finish", "continue"])
@settings(max_examples=BY_BROKER)
@given(st.integers(1, 6), st.integers(1, 50), st.integers(0, 2**32))
def test_random_graphs_by_rabbitmq(
    broker_url: str, on_failure: OnFailure, depth: int, width: int, seed: int
) -> None:
    compare(broker_url, on_failure, depth, width, seed)


def compare(store: str, on_failure: OnFailure, depth: int, width: int, seed: int) -> None:
    width = min(width, int(os.environ.get("WORKFLOW_WIDTH", "12")))
    graph = Shape(seed, on_failure).graph("", depth, width, nesting=2)
    interpreter = Interpreter(on_failure)
    expected = interpreter.run(graph)
    with engine_on(store) as engine:
        run = engine.submit(graph, on_failure)
        engine.work(run)
        check(engine, run, graph, expected, interpreter.effects)


def check(
    engine: Engine, run: WorkflowRun, graph: Graph, expected: list[Ended], effects: set[str]
) -> None:
    states = run.states()
    assert {s.name: states[s.name].value for s in graph} == {
        step.name: each.state for step, each in zip(graph, expected, strict=True)
    }
    by_name = {node.name: node.id for node in run.plan.nodes}
    records = {job.id: job for job in run.jobs()}
    for step, each in zip(graph, expected, strict=True):
        record = records[by_name[step.name]]
        if not each.is_lost and record.result is not None:
            assert engine.app.codecs.decode(record.result) == each.value, step.name
    assert set(engine.effects) == effects
    assert max(engine.ledger.settled.values(), default=0) <= 1
    ran = [job for job in records.values() if job.state in (S.SUCCEEDED, S.FAILED)]
    assert all(engine.ledger.settled[job.id] == 1 for job in ran)
    assert {origin_of(job_id) for job_id in records} == {node.id for node in run.plan.nodes}


@pytest.mark.parametrize("store", STORES)
@settings(max_examples=EXAMPLES)
@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**32))
def test_random_graphs_that_fail_fast(store: str, depth: int, width: int, seed: int) -> None:
    compare_failing_fast(store, depth, width, seed)


@settings(max_examples=ON_SERVERS)
@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**32))
def test_random_graphs_that_fail_fast_on_servers(
    server_url: str, depth: int, width: int, seed: int
) -> None:
    compare_failing_fast(server_url, depth, width, seed)


@settings(max_examples=BY_BROKER)
@given(st.integers(1, 6), st.integers(1, 12), st.integers(0, 2**32))
def test_random_graphs_that_fail_fast_by_rabbitmq(
    broker_url: str, depth: int, width: int, seed: int
) -> None:
    compare_failing_fast(broker_url, depth, width, seed)


def compare_failing_fast(store: str, depth: int, width: int, seed: int) -> None:
    """Which nodes are spared is a matter of time; that the rest is right is not: what succeeded
    gave what it should, nothing runs after all has ended, and without a loss it is as ever."""
    graph = Shape(seed, "cancel").graph("", depth, width, nesting=1)
    interpreter = Interpreter("finish")
    expected = interpreter.run(graph)
    with engine_on(store) as engine:
        run = engine.submit(graph, "cancel")
        engine.work(run)
        states = run.states()
        failed = [step.name for step in graph if states[step.name] is S.FAILED]
        if not failed:
            check(engine, run, graph, expected, interpreter.effects)
        for step, each in zip(graph, expected, strict=True):
            state = states[step.name].value
            if step.run_if == "succeeded" and state != each.state:
                assert state in ("REVOKED", "SKIPPED"), step.name
        assert max(engine.ledger.settled.values(), default=0) <= 1
