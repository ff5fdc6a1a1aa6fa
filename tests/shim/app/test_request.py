"""``task.request``: what a running task knows of its message."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

import datetime
import decimal
import math
import uuid
from types import SimpleNamespace
from typing import Any

import pytest

from celery import Celery, current_task
from celery.app.task import Context
from celery.result import allow_join_result
from celery.worker.request import Request
from celery.worker.strategy import hybrid_to_proto2

pytestmark = pytest.mark.unit


@pytest.fixture
def seen() -> list[Any]:
    return []


@pytest.fixture
def show(app: Any, seen: list[Any]) -> Any:
    @app.task(bind=True)
    def show(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append({**vars(self.request), "headers": self.request.headers})
        return current_task.name

    return show


def test_a_request_has_all_that_was_asked_for(
    app: Any, show: Any, seen: list[Any], work: Any
) -> None:
    result = show.apply_async(
        (1,), {"z": 2}, headers={"x": 1}, priority=3, own="o", time_limit=9, expires=100
    )
    work(app)
    assert result.get(timeout=1) == show.name
    (request,) = seen
    assert request["headers"] == {"x": 1}
    assert request["x"] == 1
    assert (request["id"], request["root_id"], request["parent_id"]) == (result.id, result.id, None)
    assert (request["args"], request["kwargs"], request["task"]) == ([1], {"z": 2}, show.name)
    assert (request["retries"], request["timelimit"]) == (0, [9, None])
    assert (request["called_directly"], request["is_eager"]) == (False, False)
    assert (request["hostname"], request["correlation_id"]) == ("w1@box", result.id)
    assert request["delivery_info"] == {
        "exchange": "",
        "routing_key": "celery",
        "priority": 3,
        "redelivered": False,
    }
    assert request["properties"]["own"] == "o"
    expires = datetime.datetime.fromisoformat(request["expires"])
    assert expires > datetime.datetime.now(datetime.timezone.utc)


def test_a_task_that_was_called_by_a_task_knows_its_parent_and_root(
    app: Any, show: Any, seen: list[Any], work: Any
) -> None:
    @app.task(bind=True)
    def outer(self: Any) -> Any:
        self.request.called = show.apply_async((self.request.id,))
        return [child.id for child in self.request.children]

    result = outer.delay()
    work(app)
    (request,) = seen
    assert result.get(timeout=1) == [request["id"]]
    assert (request["root_id"], request["parent_id"]) == (result.id, result.id)


def test_values_that_json_does_not_have_arrive_as_they_were(app: Any, work: Any) -> None:
    moment = datetime.datetime(2024, 1, 2, 3, 4, tzinfo=datetime.timezone.utc)
    sent = [moment, moment.date(), uuid.UUID(int=1), decimal.Decimal("1.5"), b"x", "é"]
    got: list[Any] = []

    @app.task
    def take(*values: Any) -> Any:
        got.extend(values)
        return values[0]

    result = take.delay(*sent)
    work(app)
    assert got == sent
    assert result.get(timeout=1) == moment


def test_waiting_for_another_result_inside_a_task_is_refused_unless_allowed(
    app: Any, work: Any
) -> None:
    @app.task
    def inner() -> int:
        return 1

    done = inner.delay()
    work(app)

    @app.task
    def outer() -> Any:
        with pytest.raises(RuntimeError, match=r"Never call result\.get\(\) within a task!"):
            done.get()
        assert done.get(disable_sync_subtasks=False) == 1
        with allow_join_result():
            return done.get()

    result = outer.delay()
    work(app)
    assert result.get(timeout=1) == 1


def test_outside_of_a_task_there_is_an_empty_request(app: Any, show: Any) -> None:
    assert show.request.called_directly
    assert show.request.id is None
    assert not current_task


def test_called_as_a_function_a_task_has_a_request_of_its_own(app: Any) -> None:
    @app.task(bind=True)
    def show(self: Any, x: int) -> Any:
        return self.request.called_directly, self.request.args, current_task.name

    assert show(3) == (True, (3,), show.name)


def test_a_context_takes_custom_headers_from_what_it_does_not_know() -> None:
    context = Context({"id": "1", "task": "t", "lang": "py", "tenant": "x", "_private": 1})
    assert context.headers == {"tenant": "x"}
    assert (context.tenant, context.get("nothing", 3)) == ("x", 3)
    assert Context({"id": "1"}).headers is None
    with pytest.raises(AttributeError, match="'Context' object has no attribute 'nothing'"):
        _ = context.nothing
    context.update(tenant="y")
    assert context.get("tenant") == "y"
    context.clear()
    assert context.id is None


def test_the_text_of_arguments_is_made_when_it_is_asked_for() -> None:
    context = Context({"args": [1, "x"], "kwargs": {"a": 1}})
    assert (context.argsrepr, context.kwargsrepr) == ("[1, 'x']", "{'a': 1}")
    assert Context({"args": [1], "argsrepr": "(hidden)"}).argsrepr == "(hidden)"


def test_requests_can_be_pushed_by_hand(app: Any, show: Any) -> None:
    show.push_request(id="by-hand", retries=2)
    try:
        assert (show.request.id, show.request.retries) == ("by-hand", 2)
    finally:
        show.pop_request()
    assert show.request.id is None


def test_what_is_not_pushed_is_as_before(show: Any) -> None:
    show.push_request(id="outer", retries=2)
    show.push_request(id="inner")
    assert (show.request.id, show.request.retries) == ("inner", 2)
    show.pop_request()
    assert show.request.id == "outer"
    show.pop_request()


def test_a_task_that_calls_itself_goes_on_with_its_run(app: Any) -> None:
    @app.task(bind=True)
    def deeper(self: Any, left: int) -> Any:
        if left:
            return deeper(left - 1)
        request = self.request
        return request.id, request.headers, request.loglevel, request.args

    done = deeper.apply((2,), headers={"mine": 1}, loglevel=5)
    assert done.result == (done.id, {"mine": 1}, 5, (0,))


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, -math.inf, "half \ud83d of a pair", "NaN", r"\ud83d", 1e308]
)
def test_values_that_strict_json_does_not_have_arrive_too(app: Any, work: Any, value: Any) -> None:
    got: list[Any] = []

    @app.task(bind=True)
    def take(self: Any, given: Any) -> Any:
        got.append(given)
        if self.request.retries == 0:
            raise self.retry(args=(given,), countdown=0)
        return given

    first = take.delay(value)
    second = (take.s(value) | take.s()).apply_async()
    work(app)
    for each in (*got, first.get(timeout=1), second.get(timeout=1)):
        assert repr(each) == repr(value)
    assert len(got) == 6


def test_a_message_of_protocol_1_as_one_of_protocol_2() -> None:
    old = {
        "task": "t.add",
        "id": "i",
        "args": (1,),
        "kwargs": {"y": 2},
        "chord": {"task": "t.body"},
        "utc": False,
    }
    message = SimpleNamespace(headers={"custom": 1}, body=old)
    body, headers, is_decoded, is_utc = hybrid_to_proto2(message, old)
    assert body == (
        (1,),
        {"y": 2},
        {"callbacks": None, "errbacks": None, "chord": {"task": "t.body"}, "chain": None},
    )
    assert (headers["task"], headers["retries"], headers["custom"]) == ("t.add", 0, 1)
    assert (headers["timelimit"], is_decoded, is_utc) == ((None, None), True, False)
    app = Celery("t", set_as_current=False)
    app.task(name="t.add")(lambda x, y: x + y)
    request = Request(SimpleNamespace(headers=headers, body=body), app=app, decoded=True)
    assert (request.args, request.kwargs, request.chord) == ((1,), {"y": 2}, {"task": "t.body"})
    assert (request.argsrepr, request.kwargsrepr) == (None, None)
