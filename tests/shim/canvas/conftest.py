"""A Celery app with simple tasks, on three stores, and the worker that runs them here and now."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests import services
from tests.waiting import PATIENCE

from celery import Celery
from taskmq.worker import Worker
from taskmq_celery.engine import engine_for


@pytest.fixture(params=["memory", "sqlite", "redis"])
def url(
    request: pytest.FixtureRequest, tmp_path: Path, require_server: Callable[..., Any]
) -> Iterator[str]:
    if request.param == "memory":
        yield "memory://"
    elif request.param == "sqlite":
        yield f"sqlite:///{tmp_path}/jobs.db"
    else:
        require_server("redis-server")
        with services.Redis() as redis:
            yield redis.url


def make_tasks(app: Any) -> Any:
    """The tasks that canvases here are made of. ``ran`` has the names and arguments of what ran."""
    ran: list[Any] = []

    @app.task(name="add")
    def add(x: Any, y: Any, z: Any = 0) -> Any:
        ran.append(("add", x, y))
        return x + y + z if z else x + y

    @app.task(name="total")
    def total(numbers: list[Any]) -> Any:
        ran.append(("total", tuple(numbers)))
        return sum(sum(each) if isinstance(each, list) else each for each in numbers)

    @app.task(name="same")
    def same(x: Any) -> Any:
        ran.append(("same", x))
        return x

    @app.task(name="fail")
    def fail(*args: Any) -> None:
        ran.append(("fail", *args))
        raise ValueError("deliberate", *args)

    @app.task(name="note")
    def note(what: Any) -> Any:
        ran.append(("note", what))
        return what

    @app.task(name="tell")
    def tell(request: Any, exc: BaseException, traceback: Any) -> None:
        ran.append(("tell", request.id, repr(exc)))

    @app.task(name="ids", bind=True)
    def ids(self: Any, *args: Any) -> Any:
        request = self.request
        return [request.root_id, request.parent_id, request.group, request.group_index]

    @app.task(name="become", bind=True)
    def become(self: Any, sig: Any) -> Any:
        return self.replace(app.signature(sig))

    @app.task(name="join", bind=True)
    def join(self: Any, *sigs: Any) -> Any:
        for sig in sigs:
            self.add_to_chord(app.signature(sig))
        return 0

    named = (add, total, same, fail, note, tell, ids, become, join)
    return SimpleNamespace(ran=ran, **{task.name: task for task in named})


@pytest.fixture
def app(url: str) -> Iterator[Any]:
    made = Celery("proj", broker=url, backend="rpc://", set_as_current=True)
    yield made
    made.close()


@pytest.fixture
def t(app: Any) -> Any:
    return make_tasks(app)


@pytest.fixture
def work(app: Any) -> Callable[[], None]:
    """Runs the jobs until none is left, in this thread."""

    def run() -> None:
        engine = engine_for(app, pool="solo")
        Worker(engine, queues=["celery"], name="w1@box").run_until_idle(PATIENCE)

    return run


@pytest.fixture
def value(work: Callable[[], None]) -> Callable[[Any], Any]:
    """What an applied canvas gives, after all of it has run."""

    def get(result: Any) -> Any:
        work()
        return result.get(timeout=1)

    return get
