"""Calling tasks: what a retry keeps, what eager runs know, which limits fit together."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from kombu.exceptions import EncodeError

from celery import Celery, Task

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("first", "again", "then"),
    [
        ({"kwargs": {"a": 1, "b": 2}}, {"args": (5,)}, (5, 2, ())),
        ({"args": (1, 2)}, {"kwargs": {"a": 5}}, (5, 2, ())),
        ({"args": (1, 2, 3, 4)}, {"kwargs": {"b": 5}}, (1, 5, (3, 4))),
        ({"args": (1,), "kwargs": {"b": 2}}, {"args": (5,)}, (5, 2, ())),
        ({"args": (1,)}, {"args": (5,), "kwargs": {"b": 6}}, (5, 6, ())),
        ({"args": (1, 2)}, {}, (1, 2, ())),
    ],
)
def test_a_retry_gives_no_parameter_two_values(
    app: Celery, first: dict[str, Any], again: dict[str, Any], then: Any
) -> None:
    @app.task(bind=True)  # type: ignore[untyped-decorator]  # as in Celery
    def task(self: Any, a: int, b: int = 0, *rest: int) -> Any:
        if not self.request.retries:
            raise self.retry(countdown=0, **again)
        return a, b, rest

    assert task.apply(**first).get() == then


def test_a_name_that_is_positional_only_may_be_a_keyword_too(app: Celery) -> None:
    @app.task(bind=True)  # type: ignore[untyped-decorator]
    def task(self: Any, a: int, /, b: int, **extra: int) -> Any:
        if not self.request.retries:
            raise self.retry(countdown=0, kwargs={"a": 10, "b": 20})
        return a, b, extra

    assert task.apply((1, 2)).get() == (1, 20, {"a": 10})


def test_headers_of_a_dead_lettered_message_are_not_sent_again(app: Celery) -> None:
    @app.task
    def task() -> None: ...

    task.push_request(headers={"mine": 1, "x-death": []}, delivery_info={"priority": 7})
    options = task.signature_from_request().options
    assert options["headers"] == {"mine": 1}
    assert options["priority"] == 7


@pytest.mark.parametrize(("backoff", "delays"), [(True, [1, 2]), (0.1, [1, 2]), (2.9, [2, 4])])
def test_a_task_class_that_retries_by_itself(app: Celery, backoff: Any, delays: Any) -> None:
    class Flaky(Task):
        name = "flaky"
        autoretry_for = (ZeroDivisionError,)
        retry_backoff = backoff
        retry_jitter = False
        max_retries = 1
        _app = app

        def run(self) -> None:
            1 / 0  # noqa: B018

    task = Flaky()
    app.tasks.register(task)
    with patch.object(task, "retry", wraps=task.retry) as retried:
        task.apply()
    assert [call.kwargs["countdown"] for call in retried.call_args_list] == delays


def test_an_eager_task_knows_who_called_it(app: Celery) -> None:
    @app.task(bind=True, time_limit=30)  # type: ignore[untyped-decorator]
    def inner(self: Any) -> Any:
        return self.request.parent_id, self.request.root_id, self.request.time_limit

    @app.task(bind=True)  # type: ignore[untyped-decorator]
    def outer(self: Any) -> Any:
        return self.request.id, inner.apply().get(disable_sync_subtasks=False)

    me, told = outer.apply().get()
    assert told == (me, me, 30)


def test_what_cannot_be_sent_fails_in_eager_mode_too(app: Celery) -> None:
    app.conf.task_always_eager = True
    app.conf.accept_content = ["json", "pickle"]

    @app.task
    def kind(value: Any) -> str:
        return type(value).__name__

    @app.task(serializer="pickle")  # type: ignore[untyped-decorator]
    def pickled(value: Any) -> str:
        return type(value).__name__

    assert kind.delay((1, 2)).get() == "list"
    assert pickled.delay({1}).get() == "set"
    with pytest.raises(EncodeError):
        kind.delay(object())


def test_a_soft_limit_must_come_first(app: Celery) -> None:
    @app.task(soft_time_limit=5, time_limit=3)  # type: ignore[untyped-decorator]
    def task() -> None: ...

    with pytest.raises(ValueError, match="soft_time_limit must be less than or equal"):
        task.delay()


def test_tasks_may_be_filtered_as_they_are_made(app: Celery) -> None:
    seen: list[Any] = []

    def keep(task: Any) -> Any:
        seen.append(task)
        return task

    @app.task(filter=keep)  # type: ignore[untyped-decorator]
    def task() -> None: ...

    assert seen == [task]


def test_a_report_tells_versions_and_no_passwords(app: Celery) -> None:
    app.conf.redis_password = "sesame"  # noqa: S105  # that is the point
    report = app.bugreport()
    assert "kombu:" in report
    assert "memory://" in report
    assert "sesame" not in report


def test_what_is_shown_instead_of_the_arguments(app: Celery, work: Callable[..., None]) -> None:
    @app.task(bind=True)  # type: ignore[untyped-decorator]
    def task(self: Any, secret: str) -> Any:
        return self.request.argsrepr, self.request.kwargsrepr, self.request.headers

    hidden = task.apply_async(("sesame",), argsrepr="('***',)")
    plain = task.apply_async(("open",))
    listed = task.apply_async(["open"])
    behind = (task.s("first") | task.si("second") | task.s()).apply_async()
    work(app)
    assert hidden.get(timeout=1)[:2] == ["('***',)", "{}"]
    assert plain.get(timeout=1)[0] == "('open',)"
    assert listed.get(timeout=1)[0] == "['open']"
    assert behind.parent.get(timeout=1)[0] == "['second']"
    assert behind.get(timeout=1)[0].startswith("(")
    assert not hidden.get(timeout=1)[2]
