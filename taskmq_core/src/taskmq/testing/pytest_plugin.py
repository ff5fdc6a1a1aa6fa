"""Fixtures for pytest. Ask for them in the topmost ``conftest.py``::

    pytest_plugins = ["taskmq.testing.pytest_plugin"]

The plugin does not register itself: pytest would import the engine in every project on the same
machine, before coverage starts to measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from taskmq.app import App
from taskmq.config import Config
from taskmq.transport import Transport
from taskmq.transports.memory import MemoryTransport

from .clock import FakeClock
from .workers import WorkerDriver, isolated, worker_for

__all__ = ["taskmq_app", "taskmq_clock", "taskmq_isolated", "taskmq_transport", "taskmq_worker"]


@pytest.fixture
def taskmq_clock() -> FakeClock:
    """A clock that stands still until the test moves it."""
    return FakeClock()


@pytest.fixture
def taskmq_transport(taskmq_clock: FakeClock) -> Transport:
    """An empty memory store on `taskmq_clock`."""
    return MemoryTransport(taskmq_clock)


@pytest.fixture
def taskmq_app(taskmq_transport: Transport, taskmq_clock: FakeClock) -> Iterator[App]:
    """An app on `taskmq_transport` and `taskmq_clock`.

    Override it in ``conftest.py`` to give the other fixtures the app of your program:

        @pytest.fixture
        def taskmq_app(taskmq_isolated):
            return taskmq_isolated(myprogram.app)
    """
    with App(Config(), transport=taskmq_transport, clock=taskmq_clock) as app:
        yield app


@pytest.fixture
def taskmq_isolated(taskmq_clock: FakeClock) -> Iterator[Callable[[App], App]]:
    """Call it with an app: until the end of the test, that app has a memory store of its own and
    goes by `taskmq_clock`. Gives the app back."""
    with ExitStack() as stack:

        def isolate(app: App) -> App:
            stack.enter_context(isolated(app, clock=taskmq_clock))
            return app

        yield isolate


@pytest.fixture
def taskmq_worker(taskmq_app: App) -> Iterator[WorkerDriver]:
    """A worker of `taskmq_app`, in the test's own thread: see `taskmq.testing.worker_for`."""
    with worker_for(taskmq_app) as driver:
        yield driver
