"""Requests: what they do with a broker's message, and the program's own classes of them."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
from billiard.einfo import ExceptionInfo

from celery import Celery, Task, signals, states
from celery.contrib.testing.mocks import TaskMessage
from celery.contrib.testing.worker import start_worker
from celery.exceptions import (
    Ignore,
    InvalidTaskError,
    Reject,
    Terminated,
    TimeLimitExceeded,
    WorkerLostError,
)
from celery.worker import state
from celery.worker.request import Request, create_request_cls

HEARD: list[str] = []


class Telling(Request):
    """Writes down what it hears."""

    def on_failure(
        self, exc_info: Any, send_failed_event: bool = True, return_ok: bool = False
    ) -> Any:
        HEARD.append(f"failed {self.args}: {exc_info.exception!r}")
        return super().on_failure(exc_info, send_failed_event, return_ok)

    def on_success(self, failed__retval__runtime: Any, **kwargs: Any) -> Any:
        HEARD.append(f"ended {self.task.name}: {failed__retval__runtime[0]}")
        return super().on_success(failed__retval__runtime, **kwargs)


class Heard(Task):
    Request = Telling


@pytest.fixture
def app() -> Iterator[Celery]:
    made = Celery("t", broker="memory://", backend="cache+memory://", set_as_current=False)
    yield made
    made.close()
    state.reset_state()


def divide(x: int, y: int) -> int:
    return x // y


@pytest.fixture
def task(app: Celery) -> Any:
    return app.task(name="t.divide")(divide)


class Fate:
    """What a broker is told of a message."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def ack(self, logger: Any, errors: Any) -> None:
        self.told.append("ack")

    def reject(self, logger: Any, errors: Any, requeue: bool) -> None:
        self.told.append(f"reject {requeue}")


class Told:
    """Hears events."""

    enabled = True

    def __init__(self) -> None:
        self.events: list[tuple[str, str, dict[str, Any]]] = []

    def send(self, type: str, uuid: str, **fields: Any) -> None:
        self.events.append((type, uuid, fields))


def request_of(app: Celery, fate: Fate, *args: Any, **headers: Any) -> Request:
    message = TaskMessage("t.divide", args=args, **headers)
    return Request(message, app=app, on_ack=fate.ack, on_reject=fate.reject)


def failure(error: BaseException) -> ExceptionInfo:
    try:
        raise error
    except BaseException:
        return ExceptionInfo()


def test_a_class_of_the_programs_own_hears_of_every_end(app: Celery) -> None:
    HEARD.clear()
    task = app.task(name="t.divide", base=Heard)(divide)
    with start_worker(app, pool="solo", perform_ping_check=False):
        assert task.delay(4, 2).get(timeout=20) == 2
        task.delay(1, 0).get(timeout=20, propagate=False)
    assert sorted(HEARD) == [
        "ended t.divide: 0",
        "ended t.divide: 1",
        "failed [1, 0]: ZeroDivisionError('integer division or modulo by zero')",
    ]


def test_executing_runs_stores_and_acknowledges(app: Celery, task: Any) -> None:
    fate = Fate()
    request = request_of(app, fate, 4, 2)
    assert request.execute() == 2
    assert fate.told == ["ack"]
    assert app.AsyncResult(request.id).get(timeout=5) == 2
    assert isinstance(request_of(app, fate, 1, 0).execute(), ExceptionInfo)


def test_a_revoked_message_is_acknowledged_and_not_run(app: Celery, task: Any) -> None:
    fate, told = Fate(), []

    def on_revoked(**kwargs: Any) -> None:
        told.append((kwargs["expired"], kwargs["terminated"]))

    request = request_of(app, fate, 4, 2)
    state.revoked.add(request.id)
    signals.task_revoked.connect(on_revoked)
    try:
        assert request.execute() is None
        assert request.revoked()  # told of once
    finally:
        signals.task_revoked.disconnect(on_revoked)
    assert (fate.told, told) == (["ack"], [(False, False)])
    assert app.AsyncResult(request.id).state == states.REVOKED


def test_a_message_that_has_expired_is_revoked(app: Celery, task: Any) -> None:
    now = datetime.datetime.now(datetime.timezone.utc)
    hour = datetime.timedelta(hours=1)
    assert request_of(app, Fate(), 4, 2, expires=(now - hour).isoformat()).revoked()
    assert not request_of(app, Fate(), 4, 2, expires=(now + hour).isoformat()).revoked()


@pytest.mark.parametrize("name", ["eta", "expires"])
def test_an_instant_must_be_one(app: Celery, task: Any, name: str) -> None:
    with pytest.raises(InvalidTaskError, match=name):
        request_of(app, Fate(), 4, 2, **{name: "soon"})


def test_a_stamp_revokes(app: Celery, task: Any) -> None:
    state.revoked_stamps["customer"] = ["7"]
    stamped = {"stamped_headers": ["customer"], "stamps": {"customer": ["7", "8"]}}
    assert request_of(app, Fate(), 4, 2, **stamped).revoked()
    stamped["stamps"] = {"customer": ["8"]}
    assert not request_of(app, Fate(), 4, 2, **stamped).revoked()


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (Reject(requeue=True), ["reject True"]),
        (Ignore(), ["ack"]),
        (KeyError("no"), ["ack"]),
        (Terminated("9"), ["ack"]),
    ],
)
def test_what_the_broker_is_told_of_a_failure(
    app: Celery, task: Any, error: Exception, told: list[str]
) -> None:
    task.acks_late = True
    fate = Fate()
    request_of(app, fate, 4, 2).on_failure(failure(error))
    assert fate.told == told


def test_a_lost_worker_s_message_goes_back_where_the_task_says_so(app: Celery) -> None:
    options = {"acks_late": True, "reject_on_worker_lost": True}
    app.task(name="t.divide", **options)(divide)
    fate, told = Fate(), Told()
    request = request_of(app, fate, 4, 2)
    request.eventer = told
    request.on_failure(failure(WorkerLostError("gone")))
    assert fate.told == ["reject True"]
    assert told.events == [("task-rejected", request.id, {"requeue": True})]
    assert app.AsyncResult(request.id).state == states.PENDING
    request = request_of(app, fate, 4, 2)
    request.on_failure(failure(TimeLimitExceeded(3)))
    assert fate.told == ["reject True", "ack"]
    assert app.AsyncResult(request.id).state == states.FAILURE


@pytest.mark.parametrize(
    ("error", "manner"),
    [
        (SystemExit(3), "exitcode 3"),
        (SystemExit(), "exitcode 0"),
        (SystemExit("no"), "exitcode 1"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
    ],
)
def test_a_task_that_leaves_its_process_is_lost_with_it(
    app: Celery, task: Any, error: BaseException, manner: str
) -> None:
    request = request_of(app, Fate(), 4, 2)
    request.on_failure(failure(error))
    stored = app.AsyncResult(request.id)
    assert repr(stored.result) == f"WorkerLostError('Worker exited prematurely: {manner}.')"


def test_arguments_that_are_none_are_given_back_as_a_failure(app: Celery, task: Any) -> None:
    kwargs: Any = "foo"
    request = Request(TaskMessage("t.divide", args=(), kwargs=kwargs), app=app)
    with pytest.warns(RuntimeWarning, match="Exception raised outside body: InvalidTaskError"):
        failed = request.execute()
    assert isinstance(failed.exception.exc, InvalidTaskError)


def test_memory_that_is_over_is_everybodys_concern(app: Celery, task: Any) -> None:
    with pytest.raises(MemoryError):
        request_of(app, Fate(), 4, 2).on_failure(failure(MemoryError()))


def test_a_hard_limit_is_told_of_to_hooks_signals_and_the_backend(app: Celery) -> None:
    told: list[Any] = []

    class Hooked(Task):
        def on_failure(self, exc: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
            told.append(("on_failure", exc))
            raise KeyError("a hook that fails keeps nobody from hearing")

        def after_return(self, status: Any, retval: Any, *args: Any) -> None:
            told.append((status, retval))

    def on_signal(exception: Any, **kwargs: Any) -> None:
        told.append(("signal", exception))

    app.task(name="t.divide", base=Hooked)(divide)
    request = request_of(app, Fate(), 4, 2)
    signals.task_failure.connect(on_signal)
    try:
        request.on_timeout(False, 3)
    finally:
        signals.task_failure.disconnect(on_signal)
    assert [name for name, _ in told] == ["on_failure", "signal", "FAILURE"]
    assert {type(exc) for _, exc in told} == {TimeLimitExceeded}
    assert app.AsyncResult(request.id).state == states.FAILURE


def test_the_message_decides_whether_a_result_is_stored_or_else_the_task(
    app: Celery, task: Any
) -> None:
    task.ignore_result = True
    assert request_of(app, Fate(), 4, 2).ignore_result
    assert not request_of(app, Fate(), 4, 2, ignore_result=False).ignore_result
    assert not request_of(app, Fate(), 4, 2).store_errors
    task.store_errors_even_if_ignored = True
    assert request_of(app, Fate(), 4, 2).store_errors


def test_a_class_for_one_task_of_one_worker(app: Celery, task: Any) -> None:
    made = create_request_cls(Telling, task, None, "w@host", None, app=app)
    request = made(TaskMessage("t.divide", args=(4, 2)))
    assert (request.task, request.hostname, request.app) == (task, "w@host", app)
    assert isinstance(request, Telling)
