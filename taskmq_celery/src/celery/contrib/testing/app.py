"""Apps for tests, and what keeps a test from using another app than its own.

>>> app = TestApp(config={"task_always_eager": True})
>>> with setup_default_app(app, use_trap=True):
...     app.send_task("proj.add", (2, 2))
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

from celery import Celery, _state
from celery.app.log import Logging

__all__ = (
    "DEFAULT_TEST_CONFIG",
    "TestApp",
    "Trap",
    "UnitLogging",
    "set_trap",
    "setup_default_app",
)

DEFAULT_TEST_CONFIG: dict[str, Any] = {
    "worker_hijack_root_logger": False,
    "worker_log_color": False,
    "accept_content": {"json"},
    "enable_utc": True,
    "timezone": "UTC",
    "broker_url": "memory://",
    "result_backend": "cache+memory://",
    "broker_heartbeat": 0,
}


class Trap:
    """Stands for the current app where a test must not use it: any use is a ``RuntimeError``."""

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError("Test depends on current_app")


class UnitLogging(Logging):
    """Leaves the logging of the test run alone."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.already_setup = True


def TestApp(  # noqa: N802  # Celery's name
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
    enable_logging: bool = False,
    set_as_current: bool = False,
    log: Any = UnitLogging,
    backend: Any = None,
    broker: Any = None,
    **kwargs: Any,
) -> Celery:
    """An app with a broker and results in memory; ``config`` goes before `DEFAULT_TEST_CONFIG`."""
    app = Celery(
        name or "celery.tests",
        set_as_current=set_as_current,
        log=None if enable_logging else log,
        broker=broker,
        backend=backend,
        **kwargs,
    )
    app.add_defaults({**DEFAULT_TEST_CONFIG, **(config or {})})
    return app


TestApp.__test__ = False  # type: ignore[attr-defined]  # pytest looks there, and this is no test


class _NoThread:
    """In place of what threads have of their own: every thread has this current app."""

    def __init__(self, app: Any) -> None:
        self.current_app = app


@contextmanager
def set_trap(app: Any) -> Iterator[None]:
    """While inside, nothing but ``app`` itself can be used: `Trap` is current and default app."""
    trap: Any = Trap()
    before = _state.default_app, _state._tls
    _state.set_default_app(trap)
    _state._tls = _NoThread(trap)  # type: ignore[assignment]  # not of one thread, on purpose
    try:
        yield
    finally:
        _state.set_default_app(before[0])
        _state._tls = before[1]


@contextmanager
def setup_default_app(app: Celery, use_trap: bool = False) -> Iterator[None]:
    """While inside, tests may make apps and set them as current or default: all of it is undone.

    With ``use_trap``, using the current app without having set it is a ``RuntimeError``.
    """
    current, default, last = _state._tls.current_app, _state.default_app, _state._last_current
    finalizers, apps = set(_state._on_app_finalizers), set(_state._apps)
    try:
        if use_trap:
            with set_trap(app):
                yield
        else:
            yield
    finally:
        _state.set_default_app(default)
        _state._tls.current_app = current
        _state._last_current = last
        if app is not current:
            app.close()
        _state._on_app_finalizers = finalizers
        _state._apps = weakref.WeakSet(apps)
