"""Chains and links: one workflow, stored in one step."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from celery import chain, signals
from celery.exceptions import TaskRevokedError
from taskmq import Dependency, JobState
from taskmq.envelope import load
from taskmq.records import JobFilter
from taskmq.testing import TransportWrapper
from taskmq.worker import Worker
from taskmq_celery.engine import engine_for

pytestmark = pytest.mark.unit


@pytest.fixture
def runs() -> list[Any]:
    return []


@pytest.fixture
def add(app: Any, runs: list[Any]) -> Any:
    @app.task
    def add(x: int, y: int) -> int:
        runs.append((x, y))
        return x + y

    return add


@pytest.fixture
def fail(app: Any) -> Any:
    @app.task
    def fail(*args: Any) -> None:
        raise ValueError("broken link")

    return fail


def test_each_task_gets_the_result_of_the_one_before(app: Any, add: Any, work: Any) -> None:
    result = chain(add.s(1, 1), add.s(10), add.s(100)).apply_async()
    work(app)
    assert result.get(timeout=1) == 112
    assert result.parent.get(timeout=1) == 12
    assert result.parent.parent.get(timeout=1) == 2
    assert result.parent.parent.parent is None


def test_an_immutable_task_gets_none(app: Any, add: Any, runs: list[Any], work: Any) -> None:
    result = (add.s(1, 1) | add.si(5, 5) | add.s(1)).apply_async()
    work(app)
    assert runs == [(1, 1), (5, 5), (10, 1)]
    assert result.get(timeout=1) == 11


def test_a_chain_is_stored_in_one_step(app: Any, add: Any, stored: Any) -> None:
    batches: list[int] = []

    class Counting(TransportWrapper):
        def enqueue(self, sealed: Any) -> Any:
            batches.append(len(sealed))
            return super().enqueue(sealed)

    engine = engine_for(app)
    engine._transport = Counting(engine.transport)
    result = chain(add.s(1, 1), add.si(2, 2), add.s(3)).apply_async()
    assert batches == [3]
    first, second, third = (
        load(stored(app, each).envelope) for each in (result.parent.parent, result.parent, result)
    )
    assert (first.after, second.after) == ((), (Dependency(first.id),))
    assert third.after == (Dependency(second.id, into=0),)
    assert (first.feeds, second.feeds, third.feeds) == (False, True, False)
    assert {one.workflow for one in (first, second, third)} == {first.id}
    root, parent = third.headers["root_id"], third.headers["parent_id"]
    assert (root, parent) == (first.id, second.id)


def test_after_a_failure_nothing_behind_runs_and_all_have_its_error(
    app: Any, add: Any, fail: Any, runs: list[Any], work: Any, stored: Any
) -> None:
    result = chain(add.s(1, 1), fail.s(), add.s(1), add.s(2)).apply_async()
    work(app)
    assert runs == [(1, 1)]
    with pytest.raises(ValueError, match="broken link"):
        result.get(timeout=1)
    assert [each.state for each in (result, result.parent, result.parent.parent)] == ["FAILURE"] * 3
    assert result.parent.parent.parent.state == "SUCCESS"
    assert stored(app, result).state is JobState.SKIPPED
    lonely = app.AsyncResult(result.id)  # asked from elsewhere, without its parents
    with pytest.raises(ValueError, match="broken link"):
        lonely.get(timeout=1)
    assert "in fail" in lonely.traceback


def test_revoking_a_task_ends_the_chain(app: Any, add: Any, runs: list[Any], work: Any) -> None:
    result = chain(add.s(1, 1), add.s(1), add.s(2)).apply_async()
    result.parent.revoke()
    work(app)
    assert runs == [(1, 1)]
    assert result.state == "REVOKED"
    with pytest.raises(TaskRevokedError):
        result.get(timeout=1)


def test_options_of_a_chain_go_where_celery_has_them(
    app: Any, add: Any, fail: Any, stored: Any
) -> None:
    sent = chain(add.s(1), add.s(2).set(queue="own"), add.s(3))
    result = sent.apply_async(
        (5,), queue="first", priority=4, headers={"x": 1}, task_id="last", link=add.s(9)
    )
    first, second, third = (
        load(stored(app, each).envelope) for each in (result.parent.parent, result.parent, result)
    )
    assert (first.queue, second.queue, third.queue) == ("first", "own", "celery")
    assert (first.priority, second.priority, third.id) == (4, 0, "last")
    assert (bytes(first.args), first.headers["x"]) == (b"[5,1]", 1)
    assert "x" not in second.headers
    (linked,) = (
        one
        for one in engine_for(app).transport.find(JobFilter())
        if one.id not in {first.id, second.id, third.id}
    )
    assert load(linked.envelope).after == (Dependency("last", into=0),)


def test_links_run_after_success_with_the_result(
    app: Any, add: Any, runs: list[Any], work: Any
) -> None:
    add.apply_async((1, 1), link=[add.s(10), add.si(5, 5), add.s(1) | add.s(2)])
    work(app)
    assert runs[0] == (1, 1)
    assert sorted(runs[1:]) == [(2, 1), (2, 10), (3, 2), (5, 5)]


def test_links_of_links(app: Any, add: Any, runs: list[Any], work: Any) -> None:
    inner = add.s(10)
    inner.link(add.s(100))
    signature = add.s(1, 1)
    signature.link(inner)
    signature.apply_async()
    work(app)
    assert runs == [(1, 1), (2, 10), (12, 100)]


def test_links_do_not_run_after_a_failure_but_error_links_do(
    app: Any, add: Any, fail: Any, runs: list[Any], work: Any
) -> None:
    told = []

    @app.task
    def tell(task_id: str) -> None:
        told.append(task_id)

    result = fail.apply_async(link=add.s(1), link_error=tell.s())
    work(app)
    assert (runs, told) == ([], [result.id])


def test_error_links_of_a_chain_belong_to_every_task(
    app: Any, add: Any, fail: Any, work: Any
) -> None:
    told = []

    @app.task
    def tell(request: Any, exc: BaseException, traceback: str) -> None:
        told.append((request.id, str(exc)))

    result = chain(add.s(1, 1), fail.s(), add.s(1)).on_error(tell.s()).apply_async()
    work(app)
    assert told == [(result.parent.id, "broken link")]


@pytest.mark.parametrize(
    ("options", "state"),
    [
        ({"countdown": 0.3}, "SUCCESS"),
        ({"countdown": 0.2, "expires": 60}, "SUCCESS"),
        ({"expires": 0}, "REVOKED"),
    ],
)
def test_delays_of_a_later_task_count_from_the_end_of_the_one_before(
    app: Any, options: dict[str, Any], state: str
) -> None:
    ended: list[float] = []

    @app.task
    def note(*args: Any) -> float:
        ended.append(time.time())
        return ended[-1]

    result = chain(note.s(), note.s().set(**options)).apply_async()
    worker = Worker(engine_for(app, pool="solo"), queues=["celery"])
    running = threading.Thread(target=worker.run)
    running.start()
    try:
        result.get(timeout=10, propagate=False)
    finally:
        worker.stop()
        running.join()
    assert result.state == state
    if state == "SUCCESS":
        assert ended[1] - ended[0] >= options["countdown"] - 0.01


def test_every_task_of_a_chain_is_announced_when_it_is_sent(app: Any, add: Any) -> None:
    told = []

    def before(sender: Any = None, headers: Any = None, **kwargs: Any) -> None:
        told.append(headers["id"])
        headers["trace"] = "t"

    signals.before_task_publish.connect(before)
    result = chain(add.s(1, 1), add.s(2)).apply_async()
    assert told == [result.parent.id, result.id]


def test_tasks_that_are_only_known_by_name_can_be_chained(app: Any, stored: Any) -> None:
    result = chain(
        app.signature("elsewhere.a", (1,)), app.signature("elsewhere.b", immutable=True)
    ).apply_async()
    assert stored(app, result).task == "elsewhere.b"
    assert stored(app, result.parent).task == "elsewhere.a"


def test_ignored_results_are_still_handed_on(app: Any, work: Callable[..., None]) -> None:
    @app.task(ignore_result=True)
    def one() -> int:
        return 1

    @app.task
    def double(x: int) -> int:
        return 2 * x

    result = (one.s() | double.s()).apply_async()
    work(app)
    assert result.get(timeout=1) == 2


def test_an_empty_chain_does_nothing(app: Any) -> None:
    assert chain(app=app).apply_async() is None
