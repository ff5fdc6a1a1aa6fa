"""Celery's outcomes as the engine's: what a worker makes of each end of a task."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import pytest
from kombu.exceptions import EncodeError

from celery import Celery, Task, signals
from celery.exceptions import Ignore, Reject
from taskmq.worker import Worker
from taskmq_celery.engine import engine_for

pytestmark = pytest.mark.unit


@pytest.fixture
def app() -> Iterator[Any]:
    made = Celery("t", broker="memory://", backend="rpc://", set_as_current=False)
    yield made
    made.close()


def work(app: Any) -> None:
    app.finalize()
    Worker(engine_for(app, pool="solo"), queues=["celery"], name="w1@box").run_until_idle(10)


def record(app: Any, sent: Any) -> Any:
    return engine_for(app).transport.get([sent.id])[0]


def test_a_failure_keeps_the_original_exception(app: Any) -> None:
    @app.task
    def boom() -> None:
        raise ValueError("bang", 3)

    sent = boom.delay()
    work(app)
    assert sent.state == "FAILURE"
    with pytest.raises(ValueError, match="bang") as raised:
        sent.get(timeout=1)
    assert raised.value.args == ("bang", 3)
    assert "in boom" in sent.traceback
    stored = record(app, sent)
    assert (stored.dead_reason, stored.failure.type) == ("error", "builtins.ValueError")


def test_reject_goes_to_the_dead_letters(app: Any) -> None:
    @app.task
    def rejected() -> None:
        raise Reject("no such customer")

    sent = rejected.delay()
    work(app)
    assert record(app, sent).dead_reason == "rejected"


def test_error_callbacks_are_called_for_a_task_that_is_rejected(app: Any) -> None:
    told: list[tuple[str, str]] = []

    @app.task
    def tell(request: Any, exc: BaseException, traceback: Any) -> None:
        told.append((request.id, repr(exc)))

    @app.task
    def rejected() -> None:
        raise Reject("no such customer")

    sent = rejected.apply_async(link_error=tell.s())
    work(app)
    assert told == [(sent.id, "reject requeue=False: no such customer")]


def test_reject_with_requeue_gives_the_job_back(app: Any) -> None:
    runs: list[int] = []

    @app.task
    def picky() -> str:
        runs.append(1)
        if len(runs) < 3:
            raise Reject("not now", requeue=True)
        return "now"

    sent = picky.delay()
    work(app)
    assert (sent.get(timeout=1), len(runs)) == ("now", 3)
    assert record(app, sent).attempt == 3  # the engine counts each run


def test_ignore_ends_the_job_without_a_result(app: Any) -> None:
    @app.task
    def ignored() -> None:
        raise Ignore

    sent = ignored.delay()
    work(app)
    assert record(app, sent).state == "SKIPPED"
    assert (sent.state, sent.result) == ("PENDING", None)


def test_retries_wait_as_asked(app: Any) -> None:
    @app.task(bind=True)
    def later(self: Any, when: str) -> None:
        now = datetime.datetime.now(datetime.timezone.utc)
        eta = now + datetime.timedelta(seconds=40)
        raise self.retry(**({"eta": eta} if when == "eta" else {"countdown": 30}))

    sent = {when: later.delay(when) for when in ("eta", "countdown")}
    before = datetime.datetime.now(datetime.timezone.utc).timestamp()
    work(app)
    waits = {when: record(app, one).visible_at - before for when, one in sent.items()}
    assert 39 < waits["eta"] < 45
    assert 30 <= waits["countdown"] < 35
    assert {one.state for one in sent.values()} == {"RETRY"}


def test_retries_are_counted_and_end(app: Any) -> None:
    seen: list[int] = []

    @app.task(bind=True, max_retries=2, default_retry_delay=0)
    def stubborn(self: Any) -> None:
        seen.append(self.request.retries)
        raise self.retry(exc=OSError("down"))

    sent = stubborn.delay()
    work(app)
    assert seen == [0, 1, 2]
    with pytest.raises(OSError, match="down"):
        sent.get(timeout=1)


def test_a_retry_with_other_arguments_runs_with_them(app: Any) -> None:
    @app.task(bind=True, default_retry_delay=0)
    def halve(self: Any, number: int) -> int:
        if number > 1:
            raise self.retry(args=[number // 2])
        return int(self.request.retries)

    sent = halve.delay(8)
    work(app)
    assert sent.get(timeout=1) == 3


def test_a_retry_that_is_not_raised_runs_again_after_the_return(app: Any) -> None:
    returned: list[int] = []

    @app.task(bind=True, default_retry_delay=0, max_retries=2)
    def calm(self: Any) -> int:
        if self.request.retries < 2:
            self.retry(throw=False)
        returned.append(self.request.retries)
        return int(self.request.retries)

    sent = calm.delay()
    work(app)
    assert (returned, sent.get(timeout=1)) == ([0, 1, 2], 2)


def test_a_value_that_cannot_be_stored_fails_the_task(app: Any) -> None:
    told: list[str] = []

    class Telling(Task):
        def on_success(self, *args: Any) -> None:
            told.append("success")

        def on_failure(self, exc: Any, *args: Any) -> None:
            told.append(type(exc).__name__)

    @app.task(base=Telling)
    def odd() -> object:
        return object()

    sent = odd.delay()
    work(app)
    with pytest.raises(EncodeError, match="Object of type object is not JSON serializable"):
        sent.get(timeout=1)
    assert told == ["EncodeError"]


def test_nothing_is_encoded_where_nobody_wants_the_value(app: Any) -> None:
    @app.task(ignore_result=True)
    def odd() -> object:
        return object()

    succeeded: list[object] = []

    def keep(result: object, **_: Any) -> None:
        succeeded.append(result)

    signals.task_success.connect(keep)
    try:
        odd.delay()
        work(app)
    finally:
        signals.task_success.disconnect(keep)
    assert len(succeeded) == 1


def test_a_task_that_exits_fails_and_does_not_end_the_worker(app: Any) -> None:
    @app.task
    def leave() -> None:
        raise SystemExit(3)

    @app.task
    def stay() -> str:
        return "here"

    first, second = leave.delay(), stay.delay()
    work(app)
    assert (first.state, second.get(timeout=1)) == ("FAILURE", "here")


def test_what_a_task_knows_of_its_run(app: Any) -> None:
    seen: dict[str, Any] = {}

    @app.task(bind=True)
    def look(self: Any, x: int, y: int = 0) -> None:
        seen.update(vars(self.request), custom=self.request.trace_parent)

    sent = look.apply_async((1,), {"y": 2}, headers={"trace_parent": "abc"})
    work(app)
    assert (seen["id"], seen["task"], seen["hostname"]) == (sent.id, look.name, "w1@box")
    assert (seen["args"], seen["kwargs"], seen["custom"]) == ([1], {"y": 2}, "abc")
    assert (seen["retries"], seen["called_directly"], seen["is_eager"]) == (0, False, False)
    assert seen["delivery_info"] == {
        "exchange": "",
        "routing_key": "celery",
        "priority": 0,
        "redelivered": False,
    }
