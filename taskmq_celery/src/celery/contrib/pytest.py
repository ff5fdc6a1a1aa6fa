"""Fixtures for pytest: an app, and a worker in a thread.

>>> pytest_plugins = ("celery.contrib.pytest",)  # in conftest.py
>>> def test_add(celery_app, celery_worker): ...

``@pytest.mark.celery(task_always_eager=True)`` sets settings for one test. What the fixtures work
with (`celery_config` and so on) is there to be redefined.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from .testing import worker
from .testing.app import TestApp, setup_default_app

if TYPE_CHECKING:
    from celery import Celery
    from celery.worker import WorkController

NO_WORKER = os.environ.get("NO_WORKER")
"""For debugging: run the tests against a worker that was started elsewhere."""


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker ``celery`` known."""
    config.addinivalue_line("markers", "celery(**overrides): settings of the app of this test")


@contextmanager
def _create_app(
    enable_logging: bool = False,
    use_trap: bool = False,
    parameters: Any = None,
    **config: Any,
) -> Iterator[Celery]:
    app = TestApp(
        set_as_current=False,
        enable_logging=enable_logging,
        config=config,
        **(parameters or {}),
    )
    with setup_default_app(app, use_trap=use_trap):
        yield app


@pytest.fixture(scope="session")
def use_celery_app_trap() -> bool:
    """Whether using another app than that of the fixtures is an error."""
    return False


@pytest.fixture(scope="session")
def celery_enable_logging() -> bool:
    """Whether the app configures logging as a worker does."""
    return False


@pytest.fixture(scope="session")
def celery_includes() -> Any:
    """Modules that a worker imports when it starts."""
    return ()


@pytest.fixture(scope="session")
def celery_worker_pool() -> Any:
    """The pool of the workers; ``solo`` runs tasks in the worker's own thread."""
    return "solo"


@pytest.fixture(scope="session")
def celery_config() -> Any:
    """Settings of the app."""
    return {}


@pytest.fixture(scope="session")
def celery_parameters() -> Any:
    """Arguments of ``Celery(...)``."""
    return {}


@pytest.fixture(scope="session")
def celery_worker_parameters() -> Any:
    """Options of the workers, e.g. ``queues`` or ``shutdown_timeout``."""
    return {}


@pytest.fixture(scope="session")
def celery_class_tasks() -> Any:
    """Class-based tasks that are registered with the app of the session."""
    return []


@pytest.fixture(scope="session")
def celery_session_app(
    request: pytest.FixtureRequest,
    celery_config: Any,
    celery_parameters: Any,
    celery_enable_logging: bool,
    use_celery_app_trap: bool,
) -> Iterator[Celery]:
    """An app for the whole session; the current and the default one."""
    with _create_app(
        enable_logging=celery_enable_logging,
        use_trap=use_celery_app_trap,
        parameters=celery_parameters,
        **dict(celery_config or {}),
    ) as app:
        if not use_celery_app_trap:
            app.set_default()
            app.set_current()
        yield app


@pytest.fixture(scope="session")
def celery_session_worker(
    request: pytest.FixtureRequest,
    celery_session_app: Celery,
    celery_includes: Any,
    celery_class_tasks: Any,
    celery_worker_pool: Any,
    celery_worker_parameters: Any,
) -> Iterator[WorkController | None]:
    """A worker that lives as long as the session."""
    if NO_WORKER:
        yield None
        return
    for module in celery_includes:
        celery_session_app.loader.import_task_module(module)
    for class_task in celery_class_tasks:
        celery_session_app.register_task(class_task)
    with worker.start_worker(
        celery_session_app, pool=celery_worker_pool, **dict(celery_worker_parameters or {})
    ) as running:
        yield running


@pytest.fixture
def celery_app(
    request: pytest.FixtureRequest,
    celery_config: Any,
    celery_parameters: Any,
    celery_enable_logging: bool,
    use_celery_app_trap: bool,
) -> Iterator[Celery]:
    """An app of this test alone."""
    mark = request.node.get_closest_marker("celery")
    with _create_app(
        enable_logging=celery_enable_logging,
        use_trap=use_celery_app_trap,
        parameters=celery_parameters,
        **{**(celery_config or {}), **(mark.kwargs if mark else {})},
    ) as app:
        yield app


@pytest.fixture
def celery_worker(
    request: pytest.FixtureRequest,
    celery_app: Celery,
    celery_includes: Any,
    celery_worker_pool: Any,
    celery_worker_parameters: Any,
) -> Iterator[WorkController | None]:
    """A worker of `celery_app`, for as long as the test runs."""
    if NO_WORKER:
        yield None
        return
    for module in celery_includes:
        celery_app.loader.import_task_module(module)
    with worker.start_worker(
        celery_app, pool=celery_worker_pool, **dict(celery_worker_parameters or {})
    ) as running:
        yield running


@pytest.fixture
def depends_on_current_app(celery_app: Celery) -> None:
    """Makes the app of this test the current one."""
    celery_app.set_current()
