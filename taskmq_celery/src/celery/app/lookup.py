"""From the text after ``-A`` to the app it means."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from celery.app.base import Celery
from celery.utils.imports import import_from_cwd, symbol_by_name

__all__ = ("find_app",)

NAMES = ("app", "celery")
"""Attributes of a module under which its app is expected, in this order."""


def find_app(
    app: str,
    symbol_by_name: Callable[..., Any] = symbol_by_name,
    imp: Callable[..., ModuleType] = import_from_cwd,
) -> Any:
    """The app that ``module``, ``module:attribute`` or ``module.attribute`` means.

    A module stands for its ``app`` or ``celery``, else a package for what its sub-module
    ``celery`` stands for, else for any app that it has under another name. Raises
    ``AttributeError`` if there is none, and what importing raises.

    >>> find_app("proj")
    """
    try:
        found = symbol_by_name(app, imp=imp)
    except AttributeError:
        found = imp(app)  # the last part is no attribute: a module, then
    if isinstance(found, ModuleType) and ":" not in app:
        return _app_in(found, app, symbol_by_name, imp)
    return found


def _app_in(module: ModuleType, path: str, *how: Callable[..., Any]) -> Any:
    for name in NAMES:
        found = getattr(module, name, None)
        # ``from .celery import something`` leaves the sub-module behind under this name.
        if found is not None and not isinstance(found, ModuleType):
            return found
    if hasattr(module, "__path__"):
        submodule = f"{path}.celery"
        try:
            return find_app(submodule, *how)
        except ModuleNotFoundError as error:
            if error.name != submodule:
                raise
    for value in list(vars(module).values()):
        if isinstance(value, Celery):
            return value
    raise AttributeError(f"Module {path!r} has no attribute 'celery'")
