"""`AsyncResult`: states, values, errors."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

import datetime
import pickle
import sys
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest

from celery import states, uuid
from celery.backends.base import DisabledBackend
from celery.exceptions import Reject, TaskRevokedError, TimeoutError
from celery.result import AsyncResult, EagerResult, result_from_tuple
from taskmq.records import Failure
from taskmq.transport import Nack, Reservation
from taskmq_celery.engine import engine_for
from taskmq_celery.results import rebuilt

pytestmark = pytest.mark.unit


class ShopError(Exception):
    def __init__(self, item: str, count: int) -> None:
        super().__init__(item, count)
        self.item, self.count = item, count


class Awkward(Exception):
    def __init__(self, *, only: str) -> None:
        super().__init__(only)


@pytest.fixture
def add(app: Any) -> Any:
    @app.task
    def add(x: int, y: int) -> int:
        return x + y

    return add


@pytest.fixture
def fail(app: Any) -> Any:
    @app.task
    def fail() -> None:
        raise ShopError("tea", 3)

    return fail


def test_a_success(app: Any, add: Any, work: Any) -> None:
    result = add.delay(1, 2)
    assert (result.state, result.ready(), result.result) == ("PENDING", False, None)
    work(app)
    assert (result.get(timeout=1), result.state, result.info) == (3, "SUCCESS", 3)
    assert (result.ready(), result.successful(), result.failed()) == (True, True, False)
    assert (result.name, result.queue, result.retries) == (add.name, "celery", 0)
    assert result.worker == "w1@box"
    age = datetime.datetime.now(datetime.timezone.utc) - result.date_done
    assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=1)
    assert app.AsyncResult(result.id).get(timeout=1) == 3


def test_a_failure_is_the_tasks_own_exception(app: Any, fail: Any, work: Any) -> None:
    result = fail.delay()
    work(app)
    with pytest.raises(ShopError) as raised:
        result.get(timeout=1)
    assert (raised.value.item, raised.value.count) == ("tea", 3)
    assert (result.state, result.failed()) == ("FAILURE", True)
    assert isinstance(result.get(propagate=False), ShopError)
    assert "in fail" in result.traceback


def test_an_unknown_id_is_pending_and_can_be_waited_for_only_so_long(app: Any) -> None:
    result = app.AsyncResult("nobody-knows")
    assert (result.state, result.ready(), result.exists()) == ("PENDING", False, False)
    with pytest.raises(TimeoutError, match=r"The operation timed out\."):
        result.get(timeout=0.05)


def test_a_revoked_task_never_runs(app: Any, add: Any, work: Any) -> None:
    result = add.delay(1, 2)
    result.revoke()
    work(app)
    assert result.state == "REVOKED"
    with pytest.raises(TaskRevokedError, match="revoked"):
        result.get(timeout=1)


def test_an_expired_task_is_revoked(app: Any, add: Any, work: Any) -> None:
    result = add.apply_async((1, 2), expires=-1)
    work(app)
    assert result.state == "REVOKED"
    assert str(result.result) == "expired"


@pytest.mark.parametrize(("tracked", "state"), [(True, "STARTED"), (False, "PENDING")])
def test_a_running_task_is_started_only_if_that_is_tracked(
    make_app: Callable[..., Any], work: Any, tracked: bool, state: str
) -> None:
    app = make_app(task_track_started=tracked)
    seen = []

    @app.task(bind=True)
    def look(self: Any) -> None:
        seen.append(app.AsyncResult(self.request.id).state)

    look.delay()
    work(app)
    assert seen == [state]


def test_without_a_result_backend_asking_is_an_error(make_app: Callable[..., Any]) -> None:
    app = make_app(backend=None)
    result = app.send_task("any")
    assert isinstance(result.backend, DisabledBackend)
    asked: list[Callable[[], Any]] = [lambda: result.state, lambda: result.get(1), result.ready]
    for ask in asked:
        with pytest.raises(NotImplementedError, match="No result backend is configured") as raised:
            ask()
        assert "result_backend" in str(raised.value)
    assert engine_for(app).config.store_results is False


@pytest.mark.parametrize("backend", ["rpc://", "rpc", "memory://", "sqlite:///any.db"])
def test_backends_that_mean_the_engines_own_store(
    make_app: Callable[..., Any], work: Any, backend: str
) -> None:
    app = make_app(backend=backend)

    @app.task
    def f() -> int:
        return 1

    result = f.delay()
    work(app)
    assert result.get(timeout=1) == 1
    assert app.backend.as_uri().startswith(backend)
    assert app.backend.written_by_worker is False


def test_forgetting(app: Any, add: Any, fail: Any, work: Any) -> None:
    done, failed = add.delay(1, 2), fail.delay()
    work(app)
    for result in (done, failed):
        assert result.ready()
        result.forget()
        assert app.AsyncResult(result.id).state == "PENDING"


def test_waiting_calls_back(app: Any, add: Any, work: Any) -> None:
    calls: list[Any] = []
    result = add.delay(1, 2)
    with pytest.raises(TimeoutError):
        result.get(timeout=0.1, interval=0.02, on_interval=lambda: calls.append(1))
    assert len(calls) >= 2
    work(app)
    result.get(timeout=1, callback=lambda task_id, value: calls.append((task_id, value)))
    assert calls[-1] == (result.id, 3)


def test_a_result_is_a_value(app: Any) -> None:
    app.set_current()
    parent = app.AsyncResult("p")
    result = app.AsyncResult("x", parent=parent)
    assert result == app.AsyncResult("x") == "x"
    assert len({result, app.AsyncResult("x")}) == 1
    assert (str(result), repr(result), result.task_id) == ("x", "<AsyncResult: x>", "x")
    assert result.as_tuple() == (("x", (("p", None), None)), None)
    assert result.as_list() == ["x", "p"]
    assert result_from_tuple(result.as_tuple(), app).parent == "p"
    assert result_from_tuple(result) is result
    copy = pickle.loads(pickle.dumps(result))  # noqa: S301  # our own bytes
    assert (type(copy), copy.id, copy.parent.id) == (AsyncResult, "x", "p")
    with pytest.raises(ValueError, match="requires valid id"):
        app.AsyncResult(None)


def test_an_eager_result_has_its_value(app: Any) -> None:
    good = EagerResult("1", 3, "SUCCESS", name="t")
    assert (good.get(), good.state, good.ready(), good.name) == (3, "SUCCESS", True, "t")
    bad = EagerResult("2", KeyError("x"), "FAILURE", traceback="tb")
    with pytest.raises(KeyError):
        bad.get()
    assert isinstance(bad.get(propagate=False), KeyError)
    assert (bad.traceback, bad.failed(), repr(bad)) == ("tb", True, "<EagerResult: 2>")
    good.revoke()
    assert (good.state, EagerResult("3", None, "RETRY").get()) == ("REVOKED", None)


def test_a_lost_worker_is_named(app: Any, add: Any) -> None:
    result = add.apply_async((1, 2))
    engine = engine_for(app)
    wanted = Reservation(queues={"celery": 1}, worker="w", lease=30, limit=1)
    for _ in range(5):
        (delivery,) = engine.transport.reserve(wanted)
        engine.transport.settle([Nack(delivery)])
    assert result.state == "FAILURE"
    assert "given out 5 times" in str(result.result)


@pytest.mark.parametrize(
    ("told", "manner"),
    [
        ("child 12 was killed by signal 9 (SIGKILL)", "signal 9 (SIGKILL)"),
        ("child 12 ended with exit code 1", "exitcode 1"),
    ],
)
def test_how_a_worker_was_lost(app: Any, add: Any, told: str, manner: str) -> None:
    result = add.apply_async((1, 2))
    engine = engine_for(app)
    wanted = Reservation(queues={"celery": 1}, worker="w", lease=30, limit=1)
    for _ in range(5):
        (delivery,) = engine.transport.reserve(wanted)
        engine.transport.settle([Nack(delivery, detail=told)])
    assert str(result.result) == f"Worker exited prematurely: {manner} Job: {result.id}."


@pytest.mark.parametrize(
    ("failure", "kind", "text"),
    [
        (Failure(type="builtins.ValueError", message="x", args=("'x'",)), "ValueError", "x"),
        (Failure(type=f"{__name__}.Awkward", message="only"), "Exception", "Awkward"),
        (Failure(type="no.such.Module", message="m", args=("'m'",)), "Module", "m"),
        (Failure(type="os.system", message="true", args=("'true'",)), "system", "true"),
        (Failure(type="builtins.print", message="m", args=("'m'",)), "print", "m"),
        (Failure(type="celery.result.AsyncResult", message="m"), "AsyncResult", "m"),
        (
            Failure(type="builtins.OSError", message="m", args=("<object object at 0x1>",)),
            "OSError",
            "<object object at 0x1>",
        ),
    ],
)
def test_only_exceptions_are_rebuilt_and_nothing_else_is_called(
    failure: Failure, kind: str, text: str
) -> None:
    error = rebuilt(failure)
    assert isinstance(error, Exception)
    assert type(error).__name__ == kind
    assert text in str(error)


def test_no_module_is_imported_to_rebuild_an_exception() -> None:
    before = set(sys.modules)
    rebuilt(Failure(type="antigravity.Flying", message="m"))
    assert set(sys.modules) == before


def test_custom_states_are_kept_until_the_end(app: Any, work: Any) -> None:
    seen: list[Any] = []

    @app.task(bind=True)
    def slow(self: Any) -> str:
        for done in (1, 2):
            self.update_state(state="PROGRESS", meta={"done": done})
            other = app.AsyncResult(self.request.id)
            seen.append((other.state, other.info))
        return "ok"

    result = slow.delay()
    work(app)
    assert seen == [("PROGRESS", {"done": 1}), ("PROGRESS", {"done": 2})]
    assert (result.get(timeout=1), result.state) == ("ok", "SUCCESS")
    result.forget()
    assert result.state == "PENDING"


def test_states_compare_by_how_far_they_are() -> None:
    assert states.state("PENDING") < states.state("SUCCESS")
    assert states.state("SUCCESS") > states.state("STARTED")
    assert states.state("FAILURE") >= "FAILURE"
    assert states.state("PROGRESS") <= states.state("SUCCESS")
    assert states.precedence("PROGRESS") == states.precedence(None)


def test_results_are_there_for_as_long_as_the_setting_says(make_app: Callable[..., Any]) -> None:
    week = make_app(result_expires=datetime.timedelta(days=7))
    assert engine_for(week).config.result_ttl == 7 * 86400
    assert engine_for(make_app(result_expires=None)).config.result_ttl > 10 * 360 * 86400


@pytest.mark.parametrize(("backend", "ignored"), [("rpc://", True), (None, False)])
def test_a_success_that_nobody_can_ask_for_is_forgotten_a_failure_is_kept(
    make_app: Callable[..., Any], work: Any, stored: Any, backend: str | None, ignored: bool
) -> None:
    app = make_app(backend=backend)

    @app.task(ignore_result=ignored)
    def divide(x: int) -> float:
        return 1 / x

    good, bad = divide.delay(1), divide.delay(0)
    work(app)
    assert stored(app, good) is None
    assert stored(app, bad).failure.type == "builtins.ZeroDivisionError"


def test_a_set_calls_back_for_members_that_were_there_before(make_app: Callable[..., Any]) -> None:
    app = make_app(backend="redis://localhost:1")  # not asked: results come by themselves
    first, second, late = (app.AsyncResult(uuid()) for _ in range(3))
    called: list[str] = []

    def end(result: Any) -> None:
        result._maybe_set_cache({"status": "SUCCESS", "result": 1, "task_id": result.id})

    with (
        patch.object(app.backend, "add_pending_result"),
        patch.object(app.backend, "remove_pending_result"),
    ):
        end(first)
        whole = app.ResultSet([first])
        whole.then(lambda _: called.append("there"))
        assert called == ["there"]
        end(second)
        whole.add(second)
        whole.then(lambda _: called.append("added"))
        assert called == ["there", "added"]
        whole.add(late)
        whole.then(lambda _: called.append("late"))
        assert called == ["there", "added"]
        end(late)
        assert called == ["there", "added", "late"]


def test_a_task_that_gave_itself_back_knows_that_it_was_delivered_before(
    app: Any, work: Any
) -> None:
    @app.task(bind=True)
    def second_time(self: Any) -> Any:
        if not self.request.delivery_info["redelivered"]:
            raise Reject(requeue=True)
        return "second"

    result = second_time.delay()
    work(app)
    assert result.get(timeout=5) == "second"
