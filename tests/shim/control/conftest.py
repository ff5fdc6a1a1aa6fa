"""An app on Redis, with a worker in a thread of the test that answers."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests import services
from tests.shim.control.working import NAME, make_app, worker_of
from tests.waiting import PATIENCE


@pytest.fixture(autouse=True)
def logging_as_before() -> Iterator[None]:
    """A worker configures the loggers of its process."""
    loggers = [logging.getLogger(name) for name in (None, "celery.task", "taskmq")]
    before = [(one.level, one.propagate, list(one.handlers)) for one in loggers]
    yield
    for one, (level, propagate, handlers) in zip(loggers, before, strict=True):
        one.setLevel(level)
        one.propagate = propagate
        one.handlers[:] = handlers


@pytest.fixture(scope="module")
def shared(redis_server: services.Redis) -> Iterator[Any]:
    redis_server.cli("FLUSHALL")
    app = make_app(redis_server.url)
    with worker_of(app):
        yield app
    app.close()


@pytest.fixture
def app(shared: Any) -> Iterator[Any]:
    """The app of a worker that runs nothing and of which nothing waits."""
    yield shared
    shared.let_go.set()
    shared.control.purge()
    shared.started, shared.let_go = threading.Event(), threading.Event()


@pytest.fixture
def ask(app: Any) -> Any:
    """Asks the worker: ``ask.active()`` is its own answer, without its name."""

    def asking(question: str) -> Any:
        def answer(*args: Any, **kwargs: Any) -> Any:
            inspect = app.control.inspect([NAME], timeout=PATIENCE)
            return getattr(inspect, question)(*args, **kwargs)[NAME]

        return answer

    names = [name for name in dir(app.control.inspect) if not name.startswith("_")]
    return SimpleNamespace(**{name: asking(name) for name in names})


@pytest.fixture
def order(app: Any) -> Any:
    """Gives the worker an order by name; its answer."""

    def giving(command: str, **arguments: Any) -> Any:
        (answer,) = app.control.broadcast(command, arguments, reply=True, limit=1, timeout=PATIENCE)
        return answer[NAME]

    return giving
