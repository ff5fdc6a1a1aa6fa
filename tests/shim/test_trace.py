"""The tracer: what it gives, whom it tells, in which order. Expectations were seen with Celery."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from billiard.einfo import ExceptionInfo, ExceptionWithTraceback

from celery import Celery, Task, signals, uuid
from celery.app import trace
from celery.exceptions import Ignore, Reject, Retry

pytestmark = pytest.mark.unit


@pytest.fixture
def app() -> Iterator[Celery]:
    made = Celery("t", broker="memory://", backend="rpc://", set_as_current=False)
    yield made
    made.close()


def run(task: Any, *args: Any, **options: Any) -> Any:
    tracer = trace.build_tracer(task.name, task, app=task.app, **options)
    return tracer("id-1", list(args), {}, {"id": "id-1", "retries": 0, "headers": None})


def failing(app: Celery, error: BaseException, **options: Any) -> Any:
    def body() -> None:
        raise error

    return app.task(name="t.failing", **options)(body)


class Journal(Task):
    """Writes down which hooks are called."""

    told: list[str]

    def before_start(self, task_id: str, args: Any, kwargs: Any) -> None:
        self.told.append("before_start")

    def on_success(self, retval: Any, task_id: str, args: Any, kwargs: Any) -> None:
        self.told.append(f"on_success {retval!r}")

    def on_failure(self, exc: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        assert isinstance(einfo, ExceptionInfo)
        assert isinstance(einfo.exception, ExceptionWithTraceback)
        self.told.append(f"on_failure {exc!r}")

    def on_retry(self, exc: Any, task_id: str, args: Any, kwargs: Any, einfo: Any) -> None:
        self.told.append(f"on_retry {exc!r}")

    def after_return(
        self, status: str, retval: Any, task_id: str, args: Any, kwargs: Any, einfo: Any
    ) -> None:
        assert einfo is None
        self.told.append(f"after_return {status} {retval!r}")


@pytest.fixture
def told() -> Iterator[list[str]]:
    """Hooks of `Journal` and signals about tasks, in the order in which they came."""
    lines: list[str] = []
    Journal.told = lines

    def listen(name: str) -> Callable[..., None]:
        def receiver(**fields: Any) -> None:
            lines.append(f"{name} {fields['state']}" if "state" in fields else name)

        return receiver

    names = ("prerun", "success", "failure", "retry", "internal_error", "postrun")
    receivers = {f"task_{name}": listen(f"task_{name}") for name in names}
    for name, receiver in receivers.items():
        getattr(signals, name).connect(receiver)
    yield lines
    for name, receiver in receivers.items():
        getattr(signals, name).disconnect(receiver)


# -- what it gives -------------------------------------------------------------------------------


def test_a_success(app: Celery) -> None:
    ended = run(app.task(lambda x, y: x + y, name="t.add"), 1, 2)
    assert (ended.retval, ended.info, ended.retstr) == (3, None, "3")
    assert ended.runtime >= 0
    assert ended._fields == ("retval", "info", "runtime", "retstr")


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (ValueError("x"), "FAILURE"),
        (Ignore(), "IGNORED"),
        (Reject("why", requeue=True), "REJECTED"),
        (Retry("later", when=3), "RETRY"),
    ],
)
@pytest.mark.parametrize("eager", [False, True])
def test_any_other_end(app: Celery, error: Exception, state: str, eager: bool) -> None:
    ended = run(failing(app, error), eager=eager)
    assert (ended.info.state, ended.info.retval) == (state, error)
    assert isinstance(ended.retval, ExceptionInfo)
    assert (ended.runtime, ended.retstr) == (None, None)


def test_the_exception_of_a_failure_is_itself(app: Celery) -> None:
    error = ValueError("x")
    ended = run(failing(app, error))
    assert ended.retval.exception is error
    assert ended.retval.type is ValueError
    assert "ValueError: x" in ended.retval.traceback


@pytest.mark.parametrize("error", [ValueError("x"), Retry("later", when=3)])
def test_errors_propagate_on_request(app: Celery, error: Exception) -> None:
    with pytest.raises(type(error)):
        run(failing(app, error), propagate=True)


@pytest.mark.parametrize("error", [Ignore(), Reject("why")])
def test_ignore_and_reject_never_propagate(app: Celery, error: Exception) -> None:
    assert run(failing(app, error), propagate=True).info.retval is error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)])
def test_what_is_no_exception_passes_through(
    app: Celery, error: BaseException, told: list[str]
) -> None:
    with pytest.raises(type(error)):
        run(failing(app, error))
    assert told == ["task_prerun", "task_postrun None"]


# -- whom it tells -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (None, ["on_success 1", "task_success", "after_return SUCCESS 1", "task_postrun SUCCESS"]),
        (
            ValueError("x"),
            [
                *("on_failure ValueError('x')", "task_failure"),
                *("after_return FAILURE ValueError('x')", "task_postrun FAILURE"),
            ],
        ),
        (
            Retry("later", exc=KeyError("k"), when=3),
            ["on_retry KeyError('k')", "task_retry", "task_postrun RETRY"],
        ),
        (Ignore(), ["task_postrun IGNORED"]),
        (Reject("why"), ["task_postrun REJECTED"]),
    ],
)
def test_hooks_and_signals_in_order(
    app: Celery, told: list[str], error: Exception | None, expected: list[str]
) -> None:
    if error is None:
        run(app.task(lambda: 1, name="t.one", base=Journal))
    else:
        run(failing(app, error, base=Journal))
    assert told == ["task_prerun", "before_start", *expected]


def test_the_request_is_current_meanwhile_and_gone_afterwards(app: Celery) -> None:
    seen: list[Any] = []
    task = app.task(
        lambda self: seen.append((self.request.id, self.request.called_directly)),
        name="t.bound",
        bind=True,
    )
    run(task)
    assert seen == [("id-1", False)]
    assert task.request.id is None
    assert task.request_stack.top is None


def test_a_failure_is_signalled_with_all_that_is_known(app: Celery) -> None:
    seen: dict[str, Any] = {}

    def keep(**fields: Any) -> None:
        seen.update(fields)

    error, task = ValueError("x"), None
    signals.task_failure.connect(keep)
    try:
        task = failing(app, error)
        run(task)
    finally:
        signals.task_failure.disconnect(keep)
    assert (seen["sender"], seen["task_id"], seen["exception"]) == (task, "id-1", error)
    assert (seen["args"], seen["kwargs"]) == ([], {})
    assert seen["traceback"] is error.__traceback__
    assert isinstance(seen["einfo"], ExceptionInfo)


# -- what surrounds the body ---------------------------------------------------------------------


def broken(app: Celery, hook: str, body: Callable[[], Any]) -> Any:
    def fail(self: Any, *args: Any) -> None:
        raise RuntimeError("hook")

    return app.task(body, name="t.broken", base=type("Broken", (Task,), {hook: fail}))


def fails() -> None:
    raise ValueError("x")


def test_a_failing_before_start_fails_the_task(app: Celery) -> None:
    ended = run(broken(app, "before_start", lambda: 1))
    assert (ended.info.state, repr(ended.info.retval)) == ("FAILURE", "RuntimeError('hook')")


@pytest.mark.parametrize("hook", ["on_success", "after_return"])
def test_a_failing_later_hook_is_logged(
    app: Celery, hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    ended = run(broken(app, hook, lambda: 1))
    assert (ended.retval, ended.info) == (1, None)
    assert f"Task t.broken[id-1] {hook} handler raised: RuntimeError('hook')" in caplog.text


def test_a_failing_on_failure_is_an_internal_error(app: Celery, told: list[str]) -> None:
    with pytest.warns(RuntimeWarning, match="Exception raised outside body: RuntimeError"):
        ended = run(broken(app, "on_failure", fails))
    assert (ended.info, ended.runtime) == (None, None)
    assert repr(ended.retval.exception.exc) == "RuntimeError('hook')"
    assert told[-2:] == ["task_postrun None", "task_internal_error"]


def test_an_internal_error_is_raised_in_eager_mode(app: Celery) -> None:
    with pytest.raises(RuntimeError, match="hook"):
        run(broken(app, "on_failure", fails), eager=True)


def test_keyword_arguments_must_be_a_mapping(app: Celery) -> None:
    task = app.task(lambda: 1, name="t.one")
    tracer = trace.build_tracer(task.name, task, app=app)
    with pytest.warns(RuntimeWarning, match="Task keyword arguments is not a mapping"):
        assert tracer("id-1", [], None, {}).info is None


def test_a_failing_cleanup_changes_nothing(
    app: Celery, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise RuntimeError("cleanup")

    monkeypatch.setattr(app.loader, "on_process_cleanup", fail)
    assert run(app.task(lambda: 1, name="t.one")).retval == 1
    assert "Process cleanup failed: RuntimeError" in caplog.text


# -- what it logs --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "level", "text", "has_traceback"),
    [
        (ValueError("x"), "ERROR", "raised unexpected: ValueError('x')", True),
        (KeyError("k"), "INFO", "raised expected: KeyError('k')", False),
        (Ignore(), "INFO", "ignored", False),
        (Reject("why", requeue=True), "WARNING", "reject requeue=True: why", True),
        (Retry(exc=OSError("o"), when=3), "INFO", "retry: Retry in 3s: OSError('o')", False),
    ],
)
def test_the_log_line(
    app: Celery,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
    level: str,
    text: str,
    has_traceback: bool,
) -> None:
    caplog.set_level(logging.INFO)
    run(failing(app, error, throws=(KeyError,)))
    (record,) = [one for one in caplog.records if one.name == "celery.app.trace"]
    assert (record.levelname, record.getMessage()) == (level, f"Task t.failing[id-1] {text}")
    assert bool(record.exc_info) is has_traceback


def test_the_success_line_can_be_replaced_and_carries_its_fields(
    app: Celery, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(trace, "LOG_SUCCESS", "done: %(name)s with %(args)s")
    run(app.task(lambda x: x, name="t.same"), 7)
    (record,) = [one for one in caplog.records if one.name == "celery.app.trace"]
    assert record.getMessage() == "done: t.same with [7]"
    assert record.data["return_value"] == "7"  # type: ignore[attr-defined]  # put there by extra=


def test_a_shadow_name_is_what_the_log_has(app: Celery, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    task = app.task(lambda: 1, name="t.one")
    trace.build_tracer(task.name, task, app=app)("id-1", [], {}, {"id": "id-1", "shadow": "S"})
    assert "Task S[id-1] succeeded" in caplog.text


# -- a message that comes again ------------------------------------------------------------------


@pytest.fixture
def again(app: Celery) -> Iterator[Any]:
    """Runs a task as if a broker had brought its message a second time."""
    app.conf.worker_deduplicate_successful_tasks = True
    app.conf.update(result_backend="cache+memory://")
    calls: list[int] = []
    task_id = uuid()  # records in memory outlive the app

    def body() -> int:
        calls.append(1)
        return len(calls)

    counted = app.task(name="t.counted", acks_late=True)(body)

    def call(**message: Any) -> Any:
        request = {"id": task_id, "delivery_info": {"redelivered": True}, **message}
        counted.__trace__ = None
        return trace.trace_task(counted, task_id, [], {}, request, app=app), len(calls)

    call.task_id = task_id  # type: ignore[attr-defined]
    yield call
    trace.successful_requests.discard(task_id)


def test_what_has_succeeded_is_not_run_again(again: Any) -> None:
    answer, runs = again()
    assert (answer.retval, runs) == (1, 1)
    answer, runs = again()
    assert (answer.retval, answer.info, runs) == (None, None, 1)
    assert again.task_id in trace.successful_requests


def test_whoever_settles_it_is_told_of_the_earlier_result(again: Any) -> None:
    again()
    for _ in range(2):  # in another process, and in one that knows of it
        told: list[Any] = []
        again(_done_before=told)
        assert told == [1]


def test_what_comes_for_the_first_time_is_run(again: Any) -> None:
    again()
    answer, runs = again(delivery_info={"redelivered": False})
    assert (answer.retval, runs) == (2, 2)


def test_what_follows_is_sent_by_whoever_finds_it_missing(
    again: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(
        "celery.app.trace.follow_up",
        lambda app, request, value, task_id: sent.append((value, task_id)),
    )
    again()
    del sent[:]
    again()
    assert sent == [(1, again.task_id)]


def test_what_follows_cannot_be_sent_keeps_the_message(
    again: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> None:
        raise OSError("the broker is away")

    again()
    monkeypatch.setattr("celery.app.trace.follow_up", refuse)
    with pytest.raises(Reject) as caught:
        again()
    assert caught.value.requeue
    assert again.task_id not in trace.successful_requests


# -- a message as it is --------------------------------------------------------------------------


def test_a_message_is_decoded_and_run(app: Celery) -> None:
    def plus(self: Any, x: int, y: int) -> list[Any]:
        return [x + y, self.request.group, self.request.hostname]

    app.task(name="t.plus", bind=True)(plus)
    body, content_type, encoding = b'[[1], {"y": 2}, {"group": "g"}]', "application/json", "utf-8"
    args = "t.plus", "id-1", {"id": "id-1"}, body, content_type, encoding
    code, text, seconds = trace.trace_task_ret(*args, app=app)
    assert (code, text.startswith("[3, 'g', ")) == (0, True)
    assert seconds is not None
    app.finalize()
    located = [app.tasks, {"application/json"}, "w@host"]
    assert trace.fast_trace_task(*args, _loc=located)[1] == "[3, 'g', 'w@host']"


def test_a_failure_of_a_message_comes_with_its_traceback(app: Celery) -> None:
    failing(app, KeyError("no"))
    body: Any = [], {}, {}
    args = "t.failing", "id-1", {"id": "id-1"}, body, None, None
    code, einfo, _ = trace.trace_task_ret(*args, app=app)
    assert (code, type(einfo)) == (1, ExceptionInfo)


def test_the_fast_way_needs_a_worker(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "_localized", [])
    with pytest.raises(RuntimeError, match="setup_worker_optimizations"):
        trace.fast_trace_task("t.any", "id-1", {}, ([], {}, {}), None, None)


def test_rejected_by_a_hook(app: Celery) -> None:
    class Picky(Task):
        def on_success(self, *args: Any) -> None:
            raise Reject("not this", requeue=True)

    task = app.task(lambda: 1, name="t.picky", base=Picky)
    with pytest.raises(Reject):
        run(task)


def test_the_frames_of_a_body_that_failed_are_let_go(app: Celery) -> None:
    def holding() -> None:
        held = object()
        raise KeyError(str(held))

    error = run(app.task(name="t.holding")(holding)).info.retval
    frames = []
    trace_ = error.__traceback__
    while trace_ is not None:
        frames.append(trace_.tb_frame)
        trace_ = trace_.tb_next
    assert not any("held" in frame.f_locals for frame in frames)
