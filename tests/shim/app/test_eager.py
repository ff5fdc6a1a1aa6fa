"""``apply()`` and ``task_always_eager``."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from celery import chain, chord, signals
from celery.exceptions import Ignore, MaxRetriesExceededError, Reject, Retry
from celery.result import EagerResult
from taskmq_celery.engine import engine_for

pytestmark = pytest.mark.unit

MakeApp = Callable[..., Any]


@pytest.fixture
def eager(make_app: MakeApp) -> Any:
    return make_app(task_always_eager=True)


def test_calls_run_here_and_now_and_nothing_is_stored(eager: Any) -> None:
    @eager.task
    def add(x: int, y: int) -> int:
        return x + y

    result = add.delay(1, 2)
    assert (type(result), result.get(), result.state) == (EagerResult, 3, "SUCCESS")
    assert add.apply_async((1, 2), task_id="mine", countdown=10, queue="q").id == "mine"
    assert engine_for(eager).transport.stats() == []
    with pytest.raises(TypeError, match="missing 1 required"):
        add.delay(1)


def test_errors_are_kept_or_raised_as_the_setting_says(eager: Any) -> None:
    @eager.task
    def fail() -> None:
        raise KeyError("gone")

    result = fail.delay()
    assert (result.state, result.failed(), type(result.result)) == ("FAILURE", True, KeyError)
    assert "in fail" in result.traceback
    with pytest.raises(KeyError, match="gone"):
        result.get()
    eager.conf.task_eager_propagates = True
    with pytest.raises(KeyError, match="gone"):
        fail.delay()
    assert fail.apply(throw=False).failed()


def test_retries_run_at_once(app: Any) -> None:
    runs = []

    @app.task(bind=True, max_retries=2)
    def stubborn(self: Any, x: int) -> None:
        runs.append(self.request.retries)
        raise self.retry(countdown=60)

    result = stubborn.apply((1,))
    assert runs == [0, 1, 2]
    assert isinstance(result.result, MaxRetriesExceededError)
    with pytest.raises(Retry, match="Retry in 60s"):
        stubborn.apply((1,), throw=True)


def test_a_retry_may_change_arguments(app: Any) -> None:
    @app.task(bind=True, max_retries=None)
    def count(self: Any, x: int) -> int:
        if self.request.retries < 5:
            raise self.retry(args=(x + 1,), countdown=2)
        return x

    assert count.apply((1,)).get() == 6


def test_the_request_says_that_it_is_eager(app: Any) -> None:
    seen: list[Any] = []

    @app.task(bind=True)
    def show(self: Any, *args: Any, **kwargs: Any) -> None:
        seen.append(dict(vars(self.request)))

    result = show.apply((1,), {"q": 1}, headers={"h": 1})
    (request,) = seen
    assert (request["id"], request["root_id"]) == (result.id, result.id)
    assert (request["args"], request["kwargs"], request["headers"]) == ((1,), {"q": 1}, {"h": 1})
    assert (request["is_eager"], request["called_directly"]) == (True, False)
    assert request["delivery_info"]["is_eager"] is True


def test_chains_run_link_by_link(eager: Any) -> None:
    @eager.task
    def add(x: int, y: int) -> int:
        return x + y

    result = chain(add.s(1, 2), add.s(3)).apply_async()
    assert (result.get(), result.parent.get(), result.parent.parent) == (6, 3, None)
    assert chain(add.s(1), add.s(3)).delay(5).get() == 9


def test_links_are_called(eager: Any) -> None:
    runs = []

    @eager.task
    def note(*args: Any) -> str:
        runs.append(args)
        return "r"

    @eager.task
    def fail() -> None:
        raise ValueError("x")

    note.apply_async((1,), link=note.s(2))
    result = fail.apply_async(link=note.s(3), link_error=note.si("failed"))
    assert runs == [(1,), ("r", 2), ("failed",)]
    assert result.failed()


def test_run_signals_are_sent_but_no_publish_signals(eager: Any) -> None:
    told = []

    @eager.task
    def f() -> None: ...

    def tell(name: str) -> Callable[..., None]:
        return lambda **kwargs: told.append(name)

    receivers = {
        name: tell(name) for name in ("before_task_publish", "task_prerun", "task_postrun")
    }
    for name, receiver in receivers.items():
        getattr(signals, name).connect(receiver)
    f.delay()
    assert told == ["task_prerun", "task_postrun"]


def test_a_patched_tracer_is_used(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from celery.app import trace

    @app.task
    def f() -> int:
        return 1

    built = []
    real = trace.build_tracer

    def patched(name: str, task: Any, *args: Any, **kwargs: Any) -> Any:
        built.append((name, kwargs["eager"]))
        return real(name, task, *args, **kwargs)

    monkeypatch.setattr(trace, "build_tracer", patched)
    assert f.apply().get() == 1
    assert built == [(f.name, True)]


def test_what_is_linked_to_a_canvas_is_called_once(eager: Any) -> None:
    called = []

    @eager.task
    def add(x: int, y: int) -> int:
        return x + y

    @eager.task
    def note(value: int) -> None:
        called.append(value)

    total = eager.task(sum, name="total")
    (add.s(1, 1) | add.s(2)).apply_async(link=note.s())
    assert called == [4]
    canvas = add.s(1, 1) | chord([add.s(10), add.s(20)], total.s())
    canvas.apply_async(link=note.s())
    canvas.apply_async()  # the link was of that call alone
    chord([add.s(1, 1)], total.s()).apply_async(link=note.s())
    assert called == [4, 34, 2]


@pytest.mark.parametrize(("end", "state"), [(Ignore, "IGNORED"), (Reject, "REJECTED")])
def test_a_chain_ends_where_a_task_is_not_to_be_told_of(
    eager: Any, end: type[Exception], state: str
) -> None:
    called = []

    @eager.task
    def stop() -> None:
        raise end

    @eager.task
    def note(value: Any) -> None:
        called.append(value)

    result = (stop.s() | note.s()).apply()
    assert (result.state, called) == (state, [])
