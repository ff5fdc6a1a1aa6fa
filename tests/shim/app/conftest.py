"""Celery apps on a store in memory, and the worker that runs their tasks here and now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.waiting import PATIENCE

from celery import Celery, _state
from taskmq.worker import Worker
from taskmq_celery.engine import engine_for


@pytest.fixture(autouse=True)
def apart() -> Iterator[None]:
    """Apps and shared tasks of one test are not those of the next."""
    shared = set(_state._on_app_finalizers)
    yield
    _state._on_app_finalizers.clear()
    _state._on_app_finalizers.update(shared)
    _state._set_current_app(None)
    _state.set_default_app(None)


@pytest.fixture
def make_app() -> Iterator[Callable[..., Any]]:
    """Makes apps; keywords are settings."""
    made: list[Celery] = []

    def make(main: str = "proj", **settings: Any) -> Celery:
        given = {"broker": "memory://", "backend": "rpc://", "set_as_current": False, **settings}
        made.append(Celery(main, **given))
        return made[-1]

    yield make
    for app in made:
        app.close()


@pytest.fixture
def app(make_app: Callable[..., Any]) -> Any:
    return make_app()


@pytest.fixture
def work() -> Callable[..., None]:
    """Runs an app's jobs until none is left, in this thread."""

    def run(app: Any, *queues: str) -> None:
        engine = engine_for(app, pool="solo")
        worker = Worker(engine, queues=list(queues or ["celery"]), name="w1@box")
        worker.run_until_idle(PATIENCE)

    return run


@pytest.fixture
def stored() -> Callable[..., Any]:
    """The engine's record of a task, or its envelope."""

    def look(app: Any, result: Any) -> Any:
        return engine_for(app).transport.get([str(result)])[0]

    return look
