"""What workflows weigh: bytes, statements, round trips. Counts, which no busy machine changes."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from taskmq import App, Config, current_task
from taskmq.plans import KIND, NODES
from taskmq.testing import TransportWrapper, worker_for
from taskmq.transports.sqlite import SqliteTransport
from taskmq.workflow import Node, Workflow, WorkflowRun

PUBLISHED_WITHIN = 10.0
"""Seconds for 1,000 nodes here: ten times what is promised, on a machine that has other work."""
MORE_STATEMENTS = 6
"""Of a node: its edge, its result handed over, its counter; most of them in batches."""


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    app = App(Config(transport=f"sqlite:///{tmp_path}/jobs.db"))

    @app.task(name="noop")
    def noop(*_: Any) -> int:
        return 1

    @app.task(name="count")
    def count(values: list[Any]) -> int:
        return len(values)

    @app.task(name="nest")
    def nest(depth: int, width: int) -> Any:
        """Fan-outs within fan-outs, made while they run."""
        if not depth:
            return 1
        flow = Workflow()
        inner = [flow.add(app.tasks["nest"], depth - 1, width)]
        inner += [flow.add(app.tasks["noop"]) for _ in range(width - 1)]
        flow.add(app.tasks["count"], inner)
        return current_task().replace(flow)

    yield app
    app.close()


def nested(app: App, depth: int, width: int) -> Workflow:
    """A fan-out in which one branch is a fan-out, and so on."""
    flow = Workflow(f"{depth} deep")
    branches: list[Node] = []
    if depth > 1:
        branches.append(flow.add(nested(app, depth - 1, width)))
    branches += [flow.add(app.tasks["noop"]) for _ in range(width - len(branches))]
    flow.add(app.tasks["count"], branches)
    return flow


def stored_bytes(app: App, workflow: str) -> int:
    envelopes = sum(len(job.envelope) for job in WorkflowRun.find(app, workflow).jobs())
    documents = [d for kind in (KIND, NODES) for d in app.transport.documents(kind, [workflow])]
    return envelopes + sum(len(document.data) for document in documents)


def test_bytes_are_linear_in_the_nodes_however_deep(app: App) -> None:
    per_node = {}
    for depth in (1, 5, 10):
        run = nested(app, depth, 100).submit()
        per_node[depth] = stored_bytes(app, run.id) / len(run.plan.nodes)
    print(per_node)
    assert max(per_node.values()) < 1.05 * min(per_node.values())
    assert max(per_node.values()) < 1000


def test_what_is_added_while_it_runs_is_linear_too(app: App, tmp_path: Path) -> None:
    per_node, file = {}, tmp_path / "jobs.db"
    for depth in (4, 12):
        flow = Workflow()
        flow.add(app.tasks["nest"], depth, 50)
        before = _pages(file)
        run = flow.submit()
        with worker_for(app) as worker:
            worker.run_until_idle(timeout=60)
        assert run.get(timeout=10) == 50
        per_node[depth] = (_pages(file) - before) / len(run.jobs())
    print(per_node)
    assert per_node[12] < 1.2 * per_node[4]


def _pages(file: Path) -> int:
    connection = sqlite3.connect(file)
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
        (free,) = connection.execute("PRAGMA freelist_count").fetchone()
        return int((pages - free) * size)
    finally:
        connection.close()


def test_1000_nodes_are_published_at_once(app: App) -> None:
    flow = nested(app, 10, 100)
    app._transport = counting = Counting(app.transport)
    began = time.monotonic()
    run = flow.submit()
    took = time.monotonic() - began
    print(f"{len(run.plan.nodes)} nodes in {took:.3f} s")
    assert counting.calls == {"write": 1, "enqueue": 1}
    assert took < PUBLISHED_WITHIN


class Counting(TransportWrapper):
    """Counts the calls of each operation."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        self.calls: dict[str, int] = {}

    def around(self, operation: str, call: Any) -> Any:
        self.calls[operation] = self.calls.get(operation, 0) + 1
        return call()


# -- statements ------------------------------------------------------------------------------------


class Statements:
    """Counts the SQL statements of a store, those of a batch one by one."""

    def __init__(self, store: Any) -> None:
        assert isinstance(store, SqliteTransport)
        self._database = store._database
        self.count = 0

    def _see(self, _: str) -> None:
        self.count += 1

    def __enter__(self) -> Statements:
        self._trace(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        self._trace(None)

    def _trace(self, callback: Any) -> None:
        for run in (self._database.write, self._database.read):
            run(lambda connection: connection.set_trace_callback(callback))


def statements_of(app: App, submit: Callable[[], object]) -> int:
    """From the submission to the last settlement."""
    with Statements(app.transport) as statements:
        submit()
        with worker_for(app) as worker:
            worker.run_until_idle(timeout=120)
    return statements.count


def fan_in(app: App, width: int) -> Workflow:
    flow = Workflow()
    flow.add(app.tasks["count"], flow.map(app.tasks["noop"], range(width)))
    return flow


def test_a_node_takes_few_more_statements_than_a_job(app: App) -> None:
    noop = app.tasks["noop"]
    width = 500
    plain = statements_of(app, lambda: noop.submit_many([(n,) for n in range(width)])) / width
    joined = {each: statements_of(app, fan_in(app, each).submit) / each for each in (width, 1000)}
    print(f"{plain:.2f} statements for a job, {joined} for a node")
    assert joined[width] < plain + MORE_STATEMENTS
    assert joined[1000] < 1.1 * joined[width]


def test_a_fan_in_grows_no_faster_than_its_width(app: App) -> None:
    """Bytes of the join: one id for each part, and what it was handed."""
    for width in (100, 1000):
        run = fan_in(app, width).submit()
        (join,) = [job for job in run.jobs() if job.task == "count"]
        assert len(join.envelope) < 400 + 70 * width
