"""Apps and tasks, and what is shared between apps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from celery import _state
from celery._state import app_or_default, disable_trace, enable_trace
from celery.local import Proxy

from .base import Celery

__all__ = (
    "AppPickler",
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


class AppPickler:
    """Makes an app again from what it was pickled as (`Celery.Pickler`), for subclasses that
    pickle more of it."""

    def __call__(self, cls: type[Celery], *args: Any) -> Celery:
        kwargs = self.build_kwargs(*args)
        app = self.construct(cls, **kwargs)
        self.prepare(app, **kwargs)
        return app

    def prepare(self, app: Celery, **kwargs: Any) -> None:
        """Called with the new app: what was set on the configuration of the old one is set."""
        app.conf.update(kwargs["changes"])

    def build_kwargs(self, *args: Any) -> dict[str, Any]:
        """`Celery.__reduce_args__`, as arguments of `construct`."""
        return self.build_standard_kwargs(*args)

    def build_standard_kwargs(
        self,
        main: str | None,
        changes: dict[str, Any] | None,
        loader: Any,
        backend: Any,
        amqp: Any,
        events: Any,
        log: Any,
        control: Any,
        accept_magic_kwargs: bool,
        config_source: Any = None,
        config_source_silent: bool = False,
    ) -> dict[str, Any]:
        """These, by the names of the arguments of `Celery`. ``accept_magic_kwargs`` is nothing
        any more."""
        return {
            "main": main,
            "changes": changes or {},
            "loader": loader,
            "backend": backend,
            "amqp": amqp,
            "events": events,
            "log": log,
            "control": control,
            "set_as_current": False,
            "config_source": config_source,
            "config_source_silent": config_source_silent,
        }

    def construct(self, cls: type[Celery], **kwargs: Any) -> Celery:
        """The new app. It is not made the current one."""
        return cls(**kwargs)


Celery.Pickler = AppPickler


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
