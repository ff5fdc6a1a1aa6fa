"""Warnings about what will go away."""

from __future__ import annotations

import warnings
from collections.abc import Callable as AnyCallable
from functools import wraps
from typing import Any

from celery.exceptions import CDeprecationWarning, CPendingDeprecationWarning

__all__ = ("Callable", "Property", "warn")

PENDING_DEPRECATION_FMT = (
    "{description} is scheduled for deprecation in version {deprecation} "
    "and removal in version v{removal}. {alternative}"
)
DEPRECATION_FMT = (
    "{description} is deprecated and scheduled for removal in version {removal}. {alternative}"
)


def warn(
    description: str | None = None,
    deprecation: str | None = None,
    removal: str | None = None,
    alternative: str | None = None,
    stacklevel: int = 2,
) -> None:
    """Warn that something is deprecated, or will be if there is a version for ``deprecation``."""
    category = CDeprecationWarning if deprecation is None else CPendingDeprecationWarning
    text = (DEPRECATION_FMT if deprecation is None else PENDING_DEPRECATION_FMT).format(
        description=description,
        deprecation=deprecation,
        removal=removal,
        alternative=f"Use the {alternative} instead" if alternative else "",
    )
    warnings.warn(category(text.strip()), stacklevel=stacklevel)


def Callable(  # noqa: N802  # Celery's name
    deprecation: str | None = None,
    removal: str | None = None,
    alternative: str | None = None,
    description: str | None = None,
) -> AnyCallable[[AnyCallable[..., Any]], AnyCallable[..., Any]]:
    """A decorator for functions that will go away."""

    def decorate(function: AnyCallable[..., Any]) -> AnyCallable[..., Any]:
        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            warn(
                description=description or f"{function.__module__}.{function.__name__}",
                deprecation=deprecation,
                removal=removal,
                alternative=alternative,
                stacklevel=3,
            )
            return function(*args, **kwargs)

        return call

    return decorate


def Property(  # noqa: N802  # Celery's name
    deprecation: str | None = None,
    removal: str | None = None,
    alternative: str | None = None,
    description: str | None = None,
) -> AnyCallable[[AnyCallable[..., Any]], _DeprecatedProperty]:
    """A decorator like ``property`` for attributes that will go away."""

    def decorate(function: AnyCallable[..., Any]) -> _DeprecatedProperty:
        about = {
            "deprecation": deprecation,
            "removal": removal,
            "alternative": alternative,
            "description": description or function.__name__,
        }
        return _DeprecatedProperty(about, function)

    return decorate


class _DeprecatedProperty:
    def __init__(
        self, about: dict[str, Any], fget: Any, fset: Any = None, fdel: Any = None
    ) -> None:
        self.about = about
        self.fget, self.fset, self.fdel = fget, fset, fdel
        self.__doc__ = fget.__doc__

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        warn(stacklevel=3, **self.about)
        return self.fget(instance)

    def __set__(self, instance: Any, value: Any) -> Any:
        if instance is None:
            return self
        if self.fset is None:
            raise AttributeError("cannot be set")
        warn(stacklevel=3, **self.about)
        self.fset(instance, value)
        return None

    def __delete__(self, instance: Any) -> Any:
        if instance is None:
            return self
        if self.fdel is None:
            raise AttributeError("cannot be deleted")
        warn(stacklevel=3, **self.about)
        self.fdel(instance)
        return None

    def setter(self, fset: Any) -> _DeprecatedProperty:
        return type(self)(self.about, self.fget, fset, self.fdel)

    def deleter(self, fdel: Any) -> _DeprecatedProperty:
        return type(self)(self.about, self.fget, self.fset, fdel)
