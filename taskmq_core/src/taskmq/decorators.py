"""What ``@task`` makes of a function, with or without a base class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from .checks import nearest
from .errors import ConfigError
from .policy import TaskPolicy
from .tasks import POLICY, CoroutineTask, FunctionTask, Task

__all__ = ["BoundTaskDecorator", "TaskBase", "TaskDecorator", "task_of"]

P = ParamSpec("P")
R = TypeVar("R")
TaskBase = type[Task[..., Any]]


class TaskDecorator(Protocol):
    """What ``@task(...)`` with options makes of a function."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> CoroutineTask[P, R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> FunctionTask[P, R]: ...


class BoundTaskDecorator(Protocol):
    """The same with ``bind=True``: the first parameter is the task."""

    @overload
    def __call__(
        self, function: Callable[Concatenate[Any, P], Coroutine[Any, Any, R]], /
    ) -> CoroutineTask[P, R]: ...

    @overload
    def __call__(self, function: Callable[Concatenate[Any, P], R], /) -> FunctionTask[P, R]: ...


def task_of(
    function: Callable[..., Any],
    *,
    name: str | None,
    options: dict[str, Any],
    bind: bool,
    base: TaskBase | None = None,
) -> FunctionTask[..., Any]:
    """The task that a function becomes: ``options`` are those of its policy, in front of those
    that ``base`` has as attributes. Raises `ConfigError`."""
    kind: type[FunctionTask[..., Any]]
    kind = CoroutineTask if inspect.iscoroutinefunction(function) else FunctionTask
    if base is not None:
        _check(base, function)
        options = {each: getattr(base, each) for each in POLICY} | options
        kind = type(base.__name__, (base, kind), {"__module__": base.__module__})
    return kind(function, name=name, policy=_policy(options), bind=bind)


def _check(base: TaskBase, function: Callable[..., Any]) -> None:
    """That a class can be the base of a function's task."""
    given: object = base
    if not isinstance(given, type) or not issubclass(given, Task):
        raise ConfigError(f"base= wants a class derived from taskmq.Task, got {given!r}")
    if issubclass(given, FunctionTask):
        raise ConfigError(f"base= wants a class derived from taskmq.Task alone, got {given!r}")
    if given.__init__ is not Task.__init__:
        raise ConfigError(
            f"base={given.__name__}: a base of tasks that are functions has no __init__ of its "
            "own: make what it needs with functools.cached_property"
        )
    if given.run is Task.run:
        return
    if inspect.iscoroutinefunction(given.run) != inspect.iscoroutinefunction(function):
        raise ConfigError(
            f"base={given.__name__}: its run() and the task {getattr(function, '__name__', '')} "
            "have to be both `async def`, or none of them"
        )


def _policy(options: dict[str, Any]) -> TaskPolicy:
    unknown = [name for name in options if name not in TaskPolicy.__dataclass_fields__]
    if unknown:
        hint = nearest(unknown[0], TaskPolicy.__dataclass_fields__)
        raise ConfigError(f"no task option {unknown[0]!r}{hint}")
    return TaskPolicy(**options)
