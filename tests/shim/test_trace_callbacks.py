"""Callbacks that a message brings along: sent, or called, by the tracer."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from celery import Celery, chain
from celery.app import trace

pytestmark = pytest.mark.unit


@pytest.fixture
def seen() -> list[Any]:
    return []


@pytest.fixture
def app(seen: list[Any]) -> Iterator[Any]:
    made = Celery("t", broker="memory://", backend="rpc://", set_as_current=False)
    made.conf.task_always_eager = True

    @made.task(name="t.add", bind=True)
    def add(self: Any, x: int, y: int) -> int:
        seen.append((x, y, self.request.parent_id, self.request.root_id))
        return x + y

    @made.task(name="t.boom")
    def boom() -> None:
        raise ValueError("bang")

    @made.task(name="t.old_errback")
    def old_errback(task_id: str) -> None:
        seen.append(("old", task_id))

    @made.task(name="t.new_errback")
    def new_errback(request: Any, exc: BaseException, traceback: str) -> None:
        seen.append(("new", request.id, repr(exc), "ValueError: bang" in traceback))

    yield made
    made.close()


def run(app: Any, name: str, *args: Any, **request: Any) -> Any:
    task = app.tasks[name]
    tracer = trace.build_tracer(name, task, app=app)
    return tracer("id-1", list(args), {}, {"id": "id-1", "root_id": "root", **request})


def test_callbacks_get_the_value_and_know_where_they_come_from(app: Any, seen: list[Any]) -> None:
    links = [app.tasks["t.add"].s(10), app.tasks["t.add"].s(20)]
    assert run(app, "t.add", 1, 2, callbacks=links).retval == 3
    assert seen[1:] == [(3, 10, "id-1", "root"), (3, 20, "id-1", "root")]


def test_the_rest_of_a_chain_goes_along_with_its_last_entry(
    app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []

    def keep(self: Any, args: Any, kwargs: Any, **options: Any) -> None:
        sent.append((args, options["chain"], options["parent_id"], options["root_id"]))

    monkeypatch.setattr(app.tasks["t.add"].__class__, "apply_async", keep)
    rest = [dict(app.tasks["t.add"].s(100)), dict(app.tasks["t.add"].s(10))]
    run(app, "t.add", 1, 2, chain=rest)
    assert sent == [((3, 10), rest[:1], "id-1", "root")]
    assert len(rest) == 2


def test_a_chain_runs_eagerly_to_its_end(app: Any) -> None:
    add = app.tasks["t.add"]
    assert chain(add.s(1, 1), add.s(10), add.s(100)).apply_async().get() == 112


def test_a_callback_that_cannot_be_sent_fails_the_task(
    app: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsendable(*args: Any, **kwargs: Any) -> None:
        raise ConnectionError("no broker")

    monkeypatch.setattr(app.tasks["t.add"].__class__, "apply_async", unsendable)
    ended = run(app, "t.add", 1, 2, callbacks=[app.tasks["t.add"].s(10)])
    assert (ended.info.state, repr(ended.info.retval)) == (
        "FAILURE",
        "ConnectionError('no broker')",
    )


def test_error_callbacks_of_either_kind_are_called(app: Any, seen: list[Any]) -> None:
    errbacks = [app.tasks["t.old_errback"].s(), app.tasks["t.new_errback"].s()]
    run(app, "t.boom", errbacks=errbacks)
    assert seen == [("old", "id-1"), ("new", "id-1", "ValueError('bang')", True)]


def test_a_failing_error_callback_is_logged(app: Any, caplog: pytest.LogCaptureFixture) -> None:
    @app.task(name="t.worse")
    def worse(request: Any, exc: BaseException, traceback: str) -> None:
        raise RuntimeError("worse")

    ended = run(app, "t.boom", errbacks=[worse.s()])
    assert repr(ended.info.retval) == "ValueError('bang')"
    assert "Error callback t.worse of task id-1 failed" in caplog.text
