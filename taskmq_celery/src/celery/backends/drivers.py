"""Client libraries that may be missing: backends ask for them here, and say what to install."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from celery.exceptions import ImproperlyConfigured

__all__ = ("library", "named", "require")


def library(name: str) -> Any:
    """A module of a client library; ``None`` where that is not installed."""
    try:
        return import_module(name)
    except ImportError:
        return None


def named(module: str, *names: str) -> tuple[Any, ...]:
    """What a module has under these names; ``None`` for each where it is not installed."""
    found = library(module)
    return tuple(getattr(found, name, None) for name in names)


def require(found: Any, package: str, backend: str, extra: str) -> None:
    """Raise `ImproperlyConfigured`, with what to install, where a library was not found."""
    if found is None:
        raise ImproperlyConfigured(
            f"You must install {package} to use the {backend} result backend: "
            f"pip install 'celery[{extra}]'"
        )
