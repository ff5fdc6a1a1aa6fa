"""A worker in a thread of the test, and the tasks it knows."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

import threading
from typing import Any

from tests.waiting import PATIENCE

from celery import Celery
from celery.contrib.testing.worker import start_worker

NAME = "w1@box"


def make_app(url: str, **settings: Any) -> Any:
    """An app with the tasks ``add`` and ``hold``, which runs until ``app.let_go`` is set."""
    app: Any = Celery("controlled", broker=url, backend="rpc://")
    app.conf.update(settings)
    app.started, app.let_go = threading.Event(), threading.Event()

    @app.task(name="add", rate_limit="10/m")
    def add(x: int, y: int) -> int:
        return x + y

    @app.task(name="hold")
    def hold(*args: Any, **kwargs: Any) -> None:
        app.started.set()
        app.let_go.wait(PATIENCE)

    return app


def worker_of(app: Any, **options: Any) -> Any:
    """A worker in a thread, while inside."""
    given = {"hostname": NAME, "pool": "threads", "perform_ping_check": False, **options}
    return start_worker(app, **given)
