"""Workflows on workers: results, growth, failures, on every store that has them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from taskmq import App, Config, ConfigError, Retry, current_task
from taskmq.errors import JobSkipped, RemoteError, UnknownWorkflow
from taskmq.records import LostJob
from taskmq.states import JobState
from taskmq.testing import worker_for
from taskmq.workflow import Workflow, WorkflowRun

S = JobState


STORES = ("memory", "sqlite", "redis", "postgres")


@pytest.fixture(params=STORES)
def app(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[App]:
    embedded = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path}/jobs.db"}
    url = embedded.get(request.param) or request.getfixturevalue(f"{request.param}_url")
    app = App(Config(transport=url))
    if not app.transport.capabilities.workflows:
        pytest.skip("this store has no workflows")
    define(app)
    yield app
    app.close()


class Tasks:
    """Those of the app, by short names."""

    add: Any
    fail: Any
    double: Any
    numbers: Any
    total: Any
    note: Any
    flaky: Any
    report: Any
    factorial: Any
    crawl: Any


tasks = Tasks()
noted: list[Any] = []


def define(app: App) -> None:
    noted.clear()

    @app.task
    def add(a: int, b: int = 0) -> int:
        return a + b

    @app.task
    def fail(*args: Any) -> None:
        raise ValueError("no")

    @app.task
    def double(number: int) -> int:
        return 2 * number

    @app.task
    def numbers(count: int) -> list[int]:
        return list(range(count))

    @app.task
    def total(values: list[int], more: list[int] | None = None) -> int:
        return sum(values) + sum(more or [])

    @app.task
    def note(*args: Any) -> list[Any]:
        noted.append(list(args))
        return list(args)

    @app.task(retry=Retry(max_attempts=3, base=0.0))
    def flaky(value: int) -> int:
        if current_task().attempt < 3:
            raise OSError
        return value

    @app.task
    def report(lost: list[LostJob]) -> list[str]:
        noted.extend(lost)
        return [f"{each.state} {each.failure.message if each.failure else ''}" for each in lost]

    @app.task
    def factorial(n: int) -> Any:
        if n == 1:
            return 1
        flow = Workflow()
        flow.add(product, n, flow.add(factorial, n - 1))
        return current_task().replace(flow)

    @app.task
    def product(a: int, b: int) -> int:
        return a * b

    @app.task
    def crawl(depth: int) -> Any:
        if not depth:
            return depth
        return current_task().extend(crawl.call(depth - 1), crawl.call(depth - 1), result=depth)

    for name, value in list(locals().items()):
        setattr(tasks, name, value)


def finish(app: App, flow: Workflow) -> WorkflowRun:
    run = flow.submit(app)
    with worker_for(app) as worker:
        worker.run_until_idle(timeout=10)
    return run


def outcome(app: App, flow: Workflow) -> Any:
    return finish(app, flow).get(timeout=5)


def test_results_go_where_nodes_stand(app: App) -> None:
    flow = Workflow("sum")
    one = flow.add(tasks.add.call(1))
    two = flow.add(tasks.add.call(one, b=1))
    three = flow.add(tasks.add.call(b=one, a=two))
    flow.add(tasks.total.call([one, two, three], more=[two]))
    assert outcome(app, flow) == 1 + 2 + 3 + 2


def test_several_ends_give_a_list(app: App) -> None:
    flow = Workflow()
    first = flow.add(tasks.add.call(1))
    for number in range(3):
        flow.add(tasks.add.call(first, number))
    assert outcome(app, flow) == [1, 2, 3]


def test_order_alone(app: App) -> None:
    flow = Workflow()
    first = flow.add(tasks.note.call("first"))
    flow.add(tasks.note.call("second"), after=first)
    assert outcome(app, flow) == ["second"]
    assert noted == [["first"], ["second"]]


def test_map_over_a_list_that_is_known(app: App) -> None:
    flow = Workflow()
    flow.add(tasks.total.call(flow.map(tasks.double, range(100))))
    assert outcome(app, flow) == 9900


@pytest.mark.parametrize("count", [0, 1, 50])
def test_map_over_a_list_that_a_node_gives(app: App, count: int) -> None:
    flow = Workflow()
    mapped = flow.map(tasks.double, flow.add(tasks.numbers.call(count)), priority=3)
    flow.add(tasks.total.call(mapped))
    assert outcome(app, flow) == count * (count - 1)


def test_a_task_replaces_itself_again_and_again(app: App) -> None:
    flow = Workflow()
    flow.add(tasks.add.call(flow.add(tasks.factorial.call(12))))
    assert outcome(app, flow) == 479_001_600


def test_a_task_outside_of_a_workflow_replaces_itself(app: App) -> None:
    job = tasks.factorial.delay(5)
    with worker_for(app) as worker:
        worker.run_until_idle(timeout=10)
    assert job.get(timeout=5) == 120


def test_a_fan_out_grows_while_it_runs(app: App) -> None:
    flow = Workflow()
    flow.add(tasks.total.call([flow.add(tasks.crawl.call(4)), flow.add(tasks.crawl.call(2))]))
    # A tree of depth n gives the sum of 2 ** (n - k) * k over its levels.
    assert outcome(app, flow) == sum(2 ** (4 - k) * k for k in range(5)) + 2 + 2 * 1


def test_a_nested_workflow_is_a_node(app: App) -> None:
    inner = Workflow("inner")
    inner.add(tasks.total.call(inner.map(tasks.double, [1, 2])))
    flow = Workflow("outer")
    first = flow.add(tasks.note.call("before"))
    middle = flow.add(inner, after=first)
    flow.add(tasks.add.call(middle, 1))
    run = finish(app, flow)
    assert run.get(timeout=5) == 7
    names = [node.name.rpartition(".")[2] for node in run.plan.nodes]
    assert names == ["note", "double", "double 2", "total", "add"]
    assert run.plan.nodes[1].after == (0,)


def test_retries_hold_the_workflow_up_and_no_more(app: App) -> None:
    flow = Workflow()
    flow.add(tasks.add.call(flow.add(tasks.flaky.call(1)), flow.add(tasks.flaky.call(2))))
    assert outcome(app, flow) == 3


def test_a_failure_skips_what_needs_it_and_the_others_finish(app: App) -> None:
    flow = Workflow()
    bad = flow.add(tasks.fail.call(), name="bad")
    other = flow.add(tasks.note.call("other"), name="other")
    flow.add(tasks.note.call(bad, other), name="last")
    run = finish(app, flow)
    with pytest.raises(JobSkipped):
        run.get(timeout=5)
    assert run.states() == {"bad": S.FAILED, "other": S.SUCCEEDED, "last": S.SKIPPED}
    assert run.is_finished()


def test_a_failure_may_cancel_the_others(app: App) -> None:
    flow = Workflow(on_failure="cancel")
    flow.add(tasks.fail.call(), name="bad")
    waiting = flow.add(tasks.note.call().options(eta=60), name="later")
    flow.add(tasks.note.call(waiting), name="last")
    cleanup = flow.finally_(tasks.note.call("cleanup"))
    run = finish(app, flow)
    states = run.states()
    assert (states["bad"], states["later"], states["last"]) == (S.FAILED, S.REVOKED, S.REVOKED)
    assert states[cleanup.name] is S.SUCCEEDED
    assert noted == [["cleanup"]]


def test_what_needs_a_lost_result_may_run_all_the_same(app: App) -> None:
    flow = Workflow(on_failure="continue")
    bad = flow.add(tasks.fail.call())
    flow.add(tasks.note.call(bad, flow.add(tasks.add.call(1))))
    finish(app, flow)
    ((lost, one),) = noted
    assert one == 1
    assert (lost.state, lost.reason, lost.failure.message) == ("FAILED", "error", "no")
    assert "ValueError" in lost.failure.traceback


def test_a_handler_gets_the_errors_and_only_them(app: App) -> None:
    flow = Workflow()
    flow.add(tasks.add.call(1))
    bad = flow.add(tasks.fail.call())
    flow.add(tasks.fail.call(bad))
    handler = flow.on_error(tasks.report)
    run = finish(app, flow)
    assert run.states()[handler.name] is S.SUCCEEDED
    assert sorted(each.state for each in noted) == ["FAILED", "SKIPPED"]


def test_a_handler_of_a_success_does_not_run(app: App) -> None:
    flow = Workflow()
    flow.add(tasks.add.call(1))
    handler = flow.on_error(tasks.report)
    run = finish(app, flow)
    assert run.get(timeout=5) == 1
    assert run.states()[handler.name] is S.SKIPPED


def test_a_retry_resumes_the_workflow(app: App) -> None:
    flow = Workflow()
    bad = flow.add(tasks.fail.call(), name="bad")
    flow.add(tasks.note.call(bad), name="last")
    run = finish(app, flow)
    tasks.fail.body = lambda: "mended"
    assert WorkflowRun.find(app, run.id).retry(["bad"]) == 1
    with worker_for(app) as worker:
        worker.run_until_idle(timeout=10)
    assert run.get(timeout=5) == ["mended"]


def test_a_workflow_can_be_cancelled(app: App) -> None:
    flow = Workflow()
    flow.add(tasks.note.call(flow.map(tasks.double, range(10))))
    run = flow.submit(app)
    assert run.cancel(by="ann") == 11
    assert set(run.states().values()) == {S.REVOKED}


def test_an_error_of_a_task_that_is_the_result(app: App) -> None:
    flow = Workflow()
    flow.add(tasks.fail.call())
    with pytest.raises(RemoteError, match="no"):
        outcome(app, flow)


def test_what_cannot_be_a_workflow(app: App) -> None:
    flow, other = Workflow(), Workflow()
    node = flow.add(tasks.add.call(1))
    with pytest.raises(ConfigError, match="is of another workflow"):
        other.add(tasks.add.call(node))
    with pytest.raises(ConfigError, match="mixes nodes with values"):
        flow.add(tasks.total.call([node, 1]))
    with pytest.raises(ConfigError, match="has a node inside"):
        flow.add(tasks.note.call({"a": node}))
    with pytest.raises(ConfigError, match="has no nodes"):
        Workflow().submit(app)
    other.add(tasks.add.call(1).options(key="k"))
    with pytest.raises(ConfigError, match="has an idempotency key"):
        other.submit(app)
    with pytest.raises(UnknownWorkflow, match="no workflow nope"):
        WorkflowRun.find(app, "nope")
