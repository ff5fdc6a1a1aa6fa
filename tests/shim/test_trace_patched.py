"""Libraries reach into the tracer: each way in is part of the contract."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from celery import Celery, Task
from celery.app import trace
from celery.app.task import Task as BaseTask
from taskmq.worker import Worker
from taskmq_celery.engine import engine_for

pytestmark = pytest.mark.unit


@pytest.fixture
def app() -> Iterator[Celery]:
    made = Celery("t", broker="memory://", backend="rpc://", set_as_current=False)
    yield made
    made.close()


def work(app: Celery) -> None:
    """Run what waits, as a worker does."""
    app.finalize()
    Worker(engine_for(app, pool="solo"), queues=["celery"], name="w1@box").run_until_idle(10)


def call(app: Celery, task: Any, *args: Any) -> Any:
    sent = task.delay(*args)
    work(app)
    return sent.get(timeout=1)


@pytest.mark.parametrize("eager", [False, True])
def test_build_tracer_is_looked_up_when_a_task_first_runs(
    app: Celery, monkeypatch: pytest.MonkeyPatch, eager: bool
) -> None:
    seen: list[Any] = []
    original = trace.build_tracer

    def patched(name: str, task: Any, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        tracer = original(name, task, *args, **kwargs)

        def traced(*positional: Any, **named: Any) -> Any:
            seen.append((name, positional[:3], positional[3].get("headers"), named))
            return tracer(*positional, **named)

        return traced

    monkeypatch.setattr(trace, "build_tracer", patched)
    app.conf.task_always_eager = eager
    task = app.task(lambda x: x + 1, name="t.inc")
    sent = task.apply_async((1,), task_id="id-1")
    if not eager:
        work(app)
    assert sent.get(timeout=1) == 2
    ((name, positional, headers, named),) = seen
    assert (name, headers, named) == ("t.inc", None, {})
    assert (positional[0], list(positional[1]), positional[2]) == ("id-1", [1], {})


def test_a_run_that_is_replaced_on_the_instance_is_the_one_that_runs(app: Celery) -> None:
    task = app.task(lambda x: x, name="t.same")
    assert call(app, task, 1) == 1
    original = task.run
    task.run = lambda x: original(x) * 10
    assert call(app, task, 2) == 20


def test_a_call_that_is_overridden_goes_through_it_and_stays_one_run(app: Celery) -> None:
    seen: list[Any] = []

    class Outer(Task):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            seen.append(("call", self.request.id, self.request.called_directly))
            return super().__call__(*args, **kwargs)

    @app.task(base=Outer, bind=True, name="t.outer")
    def outer(self: Any, depth: int) -> int:
        seen.append((depth, self.request.id, self.request.called_directly))
        return depth if depth == 0 else self(depth - 1) + 1

    sent = outer.apply_async((1,), task_id="id-1")
    work(app)
    assert sent.get(timeout=1) == 1
    assert seen == [
        ("call", "id-1", False),
        (1, "id-1", False),
        ("call", "id-1", False),
        (0, "id-1", False),  # called from within its own body, as in Celery
    ]


def test_what_counts_as_overridden(app: Celery, monkeypatch: pytest.MonkeyPatch) -> None:
    class Own(Task):
        def on_success(self, *args: Any) -> None: ...

    plain = app.task(lambda: 1, name="t.plain")
    own = app.task(lambda: 1, name="t.own", base=Own)
    assert not trace.task_has_custom(plain, "on_success")
    assert trace.task_has_custom(own, "on_success")
    assert not trace.task_has_custom(own, "__call__")
    monkeypatch.setattr(BaseTask, "__call__", lambda self, *args, **kwargs: "patched")
    assert trace.task_has_custom(plain, "__call__")


def test_a_patched_call_of_the_base_class_is_what_runs(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = BaseTask.__call__

    def patched(self: Any, *args: Any, **kwargs: Any) -> Any:
        return original(self, *args, **kwargs) * 2

    monkeypatch.setattr(BaseTask, "__call__", patched)
    assert call(app, app.task(lambda x: x, name="t.same"), 4) == 8


def test_trace_task_builds_the_tracer_once(app: Celery) -> None:
    task = app.task(lambda x, y: x + y, name="t.add")
    assert task.__trace__ is None
    assert trace.trace_task(task, "id-1", (1, 2), {}, {}).retval == 3
    built = task.__trace__
    assert trace.trace_task(task, "id-1", (3, 4), {}, {}).retval == 7
    assert task.__trace__ is built


def test_worker_optimizations_make_the_app_the_processs(app: Celery) -> None:
    from celery import _state

    before = _state._tls.current_app, _state.default_app
    try:
        trace.setup_worker_optimizations(app)
        assert (_state._tls.current_app, _state.default_app) == (app, app)
        assert app.finalized
    finally:
        _state._set_current_app(before[0])
        _state.set_default_app(before[1])
    trace.reset_worker_optimizations(app)
