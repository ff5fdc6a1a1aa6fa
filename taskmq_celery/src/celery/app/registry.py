"""The tasks of an app, by name."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any, NoReturn

from celery._state import get_current_app
from celery.exceptions import InvalidTaskError, NotRegistered

from .autoretry import add_autoretry_behaviour

__all__ = ("TaskRegistry",)


class TaskRegistry(dict[str, Any]):
    """``app.tasks``. `on_register` is told of every task that comes in."""

    NotRegistered = NotRegistered
    on_register: Callable[[Any], None] | None = None

    def __missing__(self, key: str) -> NoReturn:
        raise self.NotRegistered(key)

    def register(self, task: Any) -> None:
        """Add a task, or a task class. Raises `InvalidTaskError` for one without a name."""
        if task.name is None:
            raise InvalidTaskError(
                f"Task class {type(task).__name__!r} must specify .name attribute"
            )
        task = task() if inspect.isclass(task) else task
        self[task.name] = task
        add_autoretry_behaviour(task)
        if self.on_register is not None:
            self.on_register(task)

    def unregister(self, name: Any) -> None:
        """Take a task, or the one of that name, out. Raises `NotRegistered`."""
        try:
            self.pop(getattr(name, "name", name))
        except KeyError:
            raise self.NotRegistered(name) from None

    def regular(self) -> dict[str, Any]:
        return self.filter_types("regular")

    def periodic(self) -> dict[str, Any]:
        return self.filter_types("periodic")

    def filter_types(self, type: str) -> dict[str, Any]:
        return {name: task for name, task in self.items() if _kind(task) == type}


def _kind(task: Any) -> str:
    return str(getattr(task, "type", "regular"))


def _unpickle_task(name: str) -> Any:
    """The task of the current app: what a task was pickled as by Celery before 3.0."""
    return get_current_app().tasks[name]


def _unpickle_task_v2(name: str, module: str | None = None) -> Any:
    """The task of the current app, once the module that makes it is imported."""
    if module is not None:
        importlib.import_module(module)
    return get_current_app().tasks[name]
