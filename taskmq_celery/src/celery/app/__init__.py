"""Apps and tasks, and what is shared between apps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import _state
from celery._state import app_or_default, disable_trace, enable_trace
from celery.local import Proxy

from .base import Celery

__all__ = (
    "Celery",
    "app_or_default",
    "bugreport",
    "default_app",
    "disable_trace",
    "enable_trace",
    "pop_current_task",
    "push_current_task",
    "shared_task",
)

default_app: Any = Proxy(lambda: _state.default_app)


def push_current_task(obj: Any) -> None:
    """Make a task the current one of this thread."""
    _state._task_stack.push(obj)


pop_current_task = _state._task_stack.pop


def bugreport(app: Celery | None = None) -> str:
    """Versions and settings, for a report of a bug."""
    return app_or_default(app).bugreport()


def shared_task(*args: Any, **kwargs: Any) -> Any:
    """A task of every app: ``@shared_task`` or ``@shared_task(bind=True)``.

    For libraries, and modules that are imported before there is an app. The result stands for
    the task of the app that is current when it is used.
    """

    def share(**options: Any) -> Callable[[Callable[..., Any]], Any]:
        def make(function: Callable[..., Any]) -> Any:
            if type(function) is Proxy:  # what this gives; the app that it is of is asked later
                raise TypeError("shared_task is applied more than once to one function")
            name = options.get("name")
            # For apps to come, and for those that are complete already.
            _state.connect_on_app_finalize(lambda app: app._task_from_fun(function, **options))
            for app in list(_state._get_active_apps()):
                if app.finalized:
                    with app._finalize_mutex:
                        app._task_from_fun(function, **options)

            def of_current_app() -> Any:
                app = _state.get_current_app()
                return app.tasks[name or app.gen_task_name(function.__name__, function.__module__)]

            return Proxy(of_current_app)

        return make

    if len(args) == 1 and callable(args[0]):
        return share(**kwargs)(args[0])
    return share(*args, **kwargs)
