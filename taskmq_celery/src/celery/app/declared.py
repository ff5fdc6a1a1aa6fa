"""How an app makes its tasks, and keeps them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from kombu.utils.imports import symbol_by_name

from celery._state import _announce_app_finalized
from celery.local import PromiseProxy, maybe_evaluate
from celery.utils.dispatch import Signal
from celery.utils.imports import gen_task_name

from .annotations import prepare as prepare_annotations
from .autoretry import add_autoretry_behaviour
from .registry import TaskRegistry
from .task import Header

if TYPE_CHECKING:
    from . import task as tasks_module
    from .utils import Settings

__all__ = ("Declared",)


class Declared:
    """The part of an app that has its tasks; `celery.app.base.Celery` is the whole."""

    conf: Settings
    autofinalize: bool
    finalized: bool
    registry_cls: Any = "celery.app.registry:TaskRegistry"
    task_cls: Any = "celery.app.task:Task"
    on_after_finalize: Signal
    subclass_with_self: Callable[..., type]
    _engine: Any
    _finalize_mutex: threading.RLock
    _pending: deque[PromiseProxy]
    _tasks: TaskRegistry

    def _task_from_fun(
        self,
        fun: Callable[..., Any],
        name: str | None = None,
        base: Any = None,
        bind: bool = False,
        pydantic: bool = False,
        pydantic_strict: bool = False,
        pydantic_context: Any = None,
        pydantic_dump_kwargs: dict[str, Any] | None = None,
        **options: Any,
    ) -> tasks_module.Task:
        if not self.finalized and not self.autofinalize:
            raise RuntimeError("Contract breach: app not finalized")
        name = name or self.gen_task_name(fun.__name__, fun.__module__)
        if name in self._tasks:
            return self._tasks[name]  # type: ignore[no-any-return]  # a registry holds tasks
        original = fun
        if pydantic:
            options["pydantic"] = True
            make = symbol_by_name("celery.app.validation:pydantic_wrapper")
            fun = make(self, fun, name, pydantic_strict, pydantic_context, pydantic_dump_kwargs)
            fun.__models__.first_of_caller = int(bind)  # type: ignore[attr-defined]  # it has them
        base = base or self.Task
        kind = type(
            fun.__name__,
            (base,),
            {
                "app": self,
                "name": name,
                "run": fun if bind else staticmethod(fun),
                "_decorated": True,
                "__doc__": fun.__doc__,
                "__module__": fun.__module__,
                "__annotations__": getattr(fun, "__annotations__", {}),
                "__wrapped__": fun if bind else staticmethod(fun),
                "__header__": self.type_checker(original, bound=bind),
                **options,
            },
        )
        task: tasks_module.Task = kind()
        # On the instance: a class takes no property of that name.
        task.__qualname__ = fun.__qualname__  # type: ignore[attr-defined]  # as of a function
        self._tasks.register(task)
        kind.bind(self)  # type: ignore[attr-defined]  # a class method of Task
        add_autoretry_behaviour(task, **options)
        return task

    def register_task(self, task: Any, **options: Any) -> Any:
        """Register a class-based task: an instance, or the class. Gives the task back."""
        if isinstance(task, type):
            task = task()
        if not task.name:
            task.name = self.gen_task_name(type(task).__name__, type(task).__module__)
        add_autoretry_behaviour(task, **options)
        self.tasks.register(task)
        task._app = self
        task.bind(self)
        return task

    def gen_task_name(self, name: str, module: str) -> str:
        """The name of a task that was given none: ``module.name``."""
        return gen_task_name(self, name, module)

    @property
    def tasks(self) -> TaskRegistry:
        """Every task, by name. Reading it finalizes the app."""
        self.finalize(auto=True)
        return self._tasks

    def finalize(self, auto: bool = False) -> None:
        """Make the tasks that were declared so far, those shared by all apps too."""
        with self._finalize_mutex:
            if self.finalized:
                return
            if auto and not self.autofinalize:
                raise RuntimeError("Contract breach: app not finalized")
            self.finalized = True
            while self._pending:
                maybe_evaluate(self._pending.popleft())
            # What other apps share comes second: a task of one's own keeps its name.
            _announce_app_finalized(self)  # type: ignore[arg-type]  # the whole is told of
            for task in list(self._tasks.values()):
                task.bind(self)
            self.on_after_finalize.send(sender=self)

    @cached_property
    def Task(self) -> Any:  # noqa: N802  # Celery's name
        """Base of this app's tasks; may be assigned to."""
        return self.create_task_cls()

    def create_task_cls(self) -> type:
        """A task class bound to this app."""
        return self.subclass_with_self(
            self.task_cls, name="Task", attribute="_app", keep_reduce=True, abstract=True
        )

    @cached_property
    def annotations(self) -> list[Any]:
        return prepare_annotations(self.conf.task_annotations)

    def type_checker(self, fun: Callable[..., Any], bound: bool = False) -> Any:
        """What a task has as ``__header__``: it is called with the arguments of a call, and raises
        ``TypeError`` if the function does not take them. For subclasses."""
        return Header(fun, bound=bound)

    def _registry(self, tasks: Any) -> TaskRegistry:
        """``tasks`` is a registry, or a mapping, class or name to make one from."""
        self.registry_cls = symbol_by_name(self.registry_cls)
        if isinstance(tasks, TaskRegistry):
            registry = tasks
        elif isinstance(tasks, Mapping):
            registry = self.registry_cls(tasks)
        else:
            registry = symbol_by_name(tasks or self.registry_cls)()
        registry.on_register = self._on_register
        return registry

    def _on_register(self, task: tasks_module.Task) -> None:
        if self._engine is not None:
            symbol_by_name("taskmq_celery.engine:register_task")(self, task.name)
