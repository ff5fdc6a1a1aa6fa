"""Importing by name."""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import reload
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from kombu.utils.imports import symbol_by_name

__all__ = (
    "NotAPackage",
    "cwd_in_path",
    "find_module",
    "gen_task_name",
    "import_from_cwd",
    "instantiate",
    "module_file",
    "qualname",
    "reload_from_cwd",
    "symbol_by_name",
)


class NotAPackage(Exception):
    """A module is asked for inside something that is no package."""


def qualname(obj: Any) -> str:
    """``module.Name`` of a class or function, or of an object's class."""
    if not hasattr(obj, "__name__") and hasattr(obj, "__class__"):
        obj = obj.__class__
    name = getattr(obj, "__qualname__", None) or obj.__name__
    return name if "." in obj.__name__ else f"{obj.__module__}.{name}"


get_full_cls_name = qualname
get_cls_by_name = symbol_by_name


def instantiate(name: Any, *args: Any, **kwargs: Any) -> Any:
    """Make an instance of the class of that name."""
    return symbol_by_name(name)(*args, **kwargs)


@contextmanager
def cwd_in_path() -> Iterator[None]:
    """Let modules of the working directory be found meanwhile."""
    try:
        folder = os.getcwd()  # noqa: PTH109  # text, as sys.path wants it
    except FileNotFoundError:  # somebody has deleted it
        folder = ""
    if not folder or folder in sys.path:
        yield
        return
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def find_module(module: str, path: Any = None, imp: Callable[[str], Any] | None = None) -> Any:
    """The spec of a module, looked for in the working directory too.

    Raises `NotAPackage` if a parent is no package, ``ModuleNotFoundError`` if the package has no
    such module. ``None`` if there is no such module at the top.
    """
    load = imp or importlib.import_module
    with cwd_in_path():
        parts = module.split(".")
        for length in range(1, len(parts)):
            parent = ".".join(parts[:length])
            if not hasattr(load(parent), "__path__"):
                raise NotAPackage(parent)
        found = find_spec(module)
        if found is None and len(parts) > 1:
            raise ModuleNotFoundError(f"No module named {module!r}", name=module)
        return found


def import_from_cwd(
    module: str, imp: Callable[..., Any] | None = None, package: str | None = None
) -> ModuleType:
    """Import a module, looked for in the working directory too."""
    load = imp or importlib.import_module
    with cwd_in_path():
        found: ModuleType = load(module, package=package)
        return found


def reload_from_cwd(module: ModuleType, reloader: Callable[..., Any] | None = None) -> Any:
    """Load a module again."""
    with cwd_in_path():
        return (reloader or reload)(module)


def module_file(module: ModuleType) -> str:
    """The source file of a module."""
    name = str(module.__file__)
    return name[:-1] if name.endswith((".pyc", ".pyo")) else name


def gen_task_name(app: Any, name: str, module_name: str | None) -> str:
    """The name of a task from where it is defined. ``__main__`` is called after the app."""
    module_name = module_name or "__main__"
    if module_name == "__main__" and app.main:
        return f"{app.main}.{name}"
    return f"{module_name}.{name}"


def related_module(package: str, related_name: str | None) -> ModuleType | None:
    """``package.related_name``, imported; ``None`` if there is none.

    ``related_name`` may be ``None``: then ``package`` itself. Raises ``ModuleNotFoundError`` if
    the package does not exist, and whatever importing its module raises.
    """
    try:
        found = importlib.import_module(package)
    except ModuleNotFoundError:
        # "package" may be a class in a module, as in Django's INSTALLED_APPS.
        parent, _, _ = package.rpartition(".")
        if not parent or related_name is None:
            raise
        package, found = parent, importlib.import_module(parent)
    if related_name is None:
        return found
    name = f"{package}.{related_name}"
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        # Only if that very module is missing: one that it imports in turn is the user's error.
        if error.name and name.startswith(error.name):
            return None
        raise


def folder_of(module: ModuleType) -> Path:
    """Where a module's file is."""
    return Path(module_file(module)).parent


@lru_cache(maxsize=32)
def load_extension_class_names(namespace: str) -> tuple[tuple[str, str], ...]:
    """Names and paths of what installed packages offer under an entry point group; read once."""
    return tuple((each.name, each.value) for each in entry_points(group=namespace))


def load_extension_classes(namespace: str) -> Iterator[tuple[str, Any]]:
    """What `load_extension_class_names` gives, imported; what cannot be is warned of."""
    for name, path in load_extension_class_names(namespace):
        try:
            yield name, symbol_by_name(path)
        except (ImportError, SyntaxError) as error:
            warnings.warn(f"Cannot load {namespace} extension {path!r}: {error!r}", stacklevel=2)
