"""``@app.task(pydantic=True)``: arguments and results that are pydantic models.

Messages hold plain values. A model that a caller passes is sent as what `model_dump` gives; before
the task's function runs, the parameters that are annotated as models are validated, and a model
that it returns is dumped again.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import typing
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import TYPE_CHECKING, Any

from celery.exceptions import ImproperlyConfigured
from celery.utils.annotations import annotation_issubclass, get_optional_arg

if TYPE_CHECKING:
    from .base import Celery

__all__ = ("dump_arguments", "pydantic_wrapper")

MISSING = "You need to install pydantic to use pydantic model serialization."


def pydantic_wrapper(
    app: Celery,
    task_fun: Callable[..., Any],
    task_name: str,
    strict: bool | None = None,
    context: Mapping[str, Any] | None = None,
    dump_kwargs: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """``task_fun`` with its arguments validated and its result dumped.

    Validators find ``celery_app`` and ``celery_task_name`` in their context. Pydantic is imported
    when the task is called; `ImproperlyConfigured` if it is not installed.
    """
    models = _Models(app, task_fun, task_name, strict, context, dump_kwargs)

    @functools.wraps(task_fun)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        call = models.signature.bind(*args, **kwargs)
        for name, value in call.arguments.items():
            model = models.of_parameter(name, value)
            if model is not None:
                call.arguments[name] = models.validated(model, value)
        return models.dumped_result(task_fun(*call.args, **call.kwargs))

    wrapper.__models__ = models  # type: ignore[attr-defined]  # for `dump_arguments`
    return wrapper


def dump_arguments(run: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of a call, with models as plain values where the task will get them back.

    A model is left as it is if the task would not get an equal one: a field that is not dumped, a
    subclass of what the task expects, a validator that fails here. Arguments without models come
    back as the objects that they are.
    """
    models: _Models | None = getattr(run, "__models__", None)
    if models is None or not models.in_use:
        return args, kwargs
    if isinstance(args, (list, tuple)) and args:
        changed = [models.plain(name, value) for name, value in models.positional(args)]
        changed += args[len(changed) :]
        if any(new is not old for new, old in zip(changed, args, strict=True)):
            args = changed if isinstance(args, list) else tuple(changed)
    if isinstance(kwargs, Mapping) and kwargs:
        named = {name: models.plain(name, value) for name, value in kwargs.items()}
        if any(named[name] is not value for name, value in kwargs.items()):
            kwargs = named
    return args, kwargs


class _Models:
    """What is known of the models of one task."""

    def __init__(
        self,
        app: Celery,
        function: Callable[..., Any],
        task_name: str,
        strict: bool | None,
        context: Mapping[str, Any] | None,
        dump_kwargs: Mapping[str, Any] | None,
    ) -> None:
        self.function = function
        self.signature = inspect.signature(function)
        self.how = {
            "strict": strict,
            "context": {
                "celery_app": app,
                "celery_task_name": task_name,
                **(context or {}),
            },
        }
        self.dump_kwargs = {"mode": "json", **(dump_kwargs or {})}

    @functools.cached_property
    def pydantic(self) -> ModuleType:
        try:
            return importlib.import_module("pydantic")
        except ModuleNotFoundError as error:
            raise ImproperlyConfigured(MISSING) from error

    @functools.cached_property
    def annotations(self) -> dict[str, Any]:
        try:
            return typing.get_type_hints(self.function)
        except (NameError, TypeError):  # a name that only a type checker can see
            return {
                name: annotation
                for name, annotation in inspect.get_annotations(self.function).items()
                if not isinstance(annotation, str)
            }

    @property
    def in_use(self) -> bool:
        """Whether a parameter is annotated as a model."""
        return any(name != "return" and self._model(name) for name in self.annotations)

    def _model(self, name: str) -> Any:
        annotation = self.annotations.get(name)
        wanted = get_optional_arg(annotation) or annotation
        if wanted is None or not annotation_issubclass(wanted, self.pydantic.BaseModel):
            return None
        kind = self.signature.parameters.get(name)
        variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
        return None if kind is not None and kind.kind in variadic else wanted

    def of_parameter(self, name: str, value: Any) -> Any:
        """The model that a value is to be validated as; ``None`` for no model."""
        if value is None and get_optional_arg(self.annotations.get(name)) is not None:
            return None
        return self._model(name) if name in self.signature.parameters else None

    def validated(self, model: Any, value: Any) -> Any:
        return model.model_validate(value, **self.how)

    def dumped_result(self, value: Any) -> Any:
        if isinstance(value, self.pydantic.BaseModel) and self._model("return"):
            return value.model_dump(**self.dump_kwargs)
        return value

    def positional(self, args: Any) -> list[tuple[str, Any]]:
        """The arguments that have a parameter of their own, with its name."""
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [one.name for one in self.signature.parameters.values() if one.kind in kinds]
        bound = names[self.first_of_caller :]
        return list(zip(bound, args, strict=False))

    first_of_caller = 0
    """1 for a bound task, whose first parameter is the task."""

    def plain(self, name: str, value: Any) -> Any:
        """A model as a plain value, if that makes an equal model again; else ``value``."""
        if not isinstance(value, self.pydantic.BaseModel) or hasattr(value, "__json__"):
            return value
        model = self.of_parameter(name, value)
        if model is None:
            return value
        try:
            dumped = value.model_dump(**self.dump_kwargs)
            again = self.validated(model, dumped)
        except Exception:  # whatever it is: the serializer will say what is wrong
            return value
        return dumped if type(again) is type(value) and again == value else value
