"""The base of loaders."""

from __future__ import annotations

import importlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timezone
from types import MappingProxyType, ModuleType
from typing import TYPE_CHECKING, Any

from celery import signals
from celery.app.defaults import TYPES, find
from celery.exceptions import ImproperlyConfigured
from celery.utils.imports import find_module, import_from_cwd, related_module, symbol_by_name

if TYPE_CHECKING:
    from celery.app.base import Celery

__all__ = ("BaseLoader",)

unconfigured = object()
"""In place of a configuration source that has not been read."""


RE_TYPE = re.compile(r"\((\w+)\)")
"""The type of a value on a command line: ``(int)``."""

CONVERTERS: dict[str, Callable[[str], Any]] = {
    **TYPES,
    "any": lambda text: int(text) if text.isdigit() else text,
    "dict": lambda text: dict(json.loads(text)),
    "json": json.loads,
    "list": lambda text: list(json.loads(text)),
    "string": str,
    "tuple": lambda text: tuple(json.loads(text)),
}


class BaseLoader:
    """Reads the configuration, imports task modules, and is told what a worker does.

    Subclasses override `read_configuration` and the ``on_…`` methods.
    """

    builtin_modules: frozenset[str] = frozenset()
    override_backends: Mapping[str, str] = MappingProxyType({})
    worker_initialized = False
    configured = False

    def __init__(self, app: Celery, **kwargs: Any) -> None:
        self.app = app
        self.task_modules: set[str] = set()
        self._conf: Any = unconfigured

    # -- told by the worker ------------------------------------------------------------------

    def on_task_init(self, task_id: str, task: Any) -> None:
        """Before a task runs."""

    def on_process_cleanup(self) -> None:
        """After a task ran."""

    def on_worker_init(self) -> None:
        """When a worker starts."""

    def on_worker_shutdown(self) -> None:
        """When a worker stops."""

    def on_worker_process_init(self) -> None:
        """When a process of a pool starts."""

    def init_worker(self) -> None:
        """Import the task modules, once, and tell `on_worker_init`."""
        if not self.worker_initialized:
            self.worker_initialized = True
            self.import_default_modules()
            self.on_worker_init()

    def shutdown_worker(self) -> None:
        self.on_worker_shutdown()

    def init_worker_process(self) -> None:
        self.on_worker_process_init()

    # -- modules -----------------------------------------------------------------------------

    @property
    def default_modules(self) -> list[str]:
        """The modules of ``imports`` and ``include``."""
        conf = self.app.conf
        return [*_listed(conf.imports), *_listed(conf.include)]

    def import_default_modules(self) -> list[Any]:
        """Import them, and what `Celery.autodiscover_tasks` asked for.

        Raises whatever one of the modules raises.
        """
        for _, response in signals.import_modules.send(sender=self.app):
            if isinstance(response, Exception):
                raise response
        for discover in list(self.app._discoveries):
            discover()
        return [self.import_task_module(name) for name in self.default_modules]

    def import_task_module(self, module: str) -> Any:
        self.task_modules.add(module)
        return self.import_from_cwd(module)

    def import_module(self, module: str, package: str | None = None) -> ModuleType:
        return importlib.import_module(module, package=package)

    def import_from_cwd(
        self, module: str, imp: Any = None, package: str | None = None
    ) -> ModuleType:
        return import_from_cwd(module, imp or self.import_module, package=package)

    def find_module(self, module: str) -> Any:
        return find_module(module)

    def autodiscover_tasks(
        self, packages: Iterable[str], related_name: str | None = "tasks"
    ) -> list[ModuleType]:
        """Import ``package.related_name`` of every package that has one."""
        found = [module for module in autodiscover_tasks(packages, related_name) if module]
        self.task_modules.update(module.__name__ for module in found)
        return found

    # -- configuration -----------------------------------------------------------------------

    @property
    def conf(self) -> Any:
        """The configuration source: whatever `read_configuration` gives, unless one was set."""
        if self._conf is unconfigured:
            self._conf = self.read_configuration() or {}
        return self._conf

    def read_configuration(self, env: str = "CELERY_CONFIG_MODULE") -> Any:
        """The module that the environment variable names; ``None`` where it names none."""
        name = os.environ.get(env)
        return self._import_config(name) if name else None

    def config_from_object(self, obj: Any, silent: bool = False) -> bool:
        """Take the configuration from an object, or from the one of that name.

        ``silent``: a missing module is no error. Whether there is a configuration now.
        """
        if isinstance(obj, str):
            try:
                obj = self._import_config(obj)
            except (ImportError, AttributeError):
                if silent:
                    return False
                raise
        self._conf = obj
        is_mapping = isinstance(obj, Mapping)
        named = (
            obj.get("override_backends") if is_mapping else getattr(obj, "override_backends", None)
        )
        if named:
            self.override_backends = dict(named)
        self.configured = True
        return True

    def _import_config(self, name: str) -> Any:
        # "module:attribute", or a path where only trying tells what is a module.
        if ":" in name:
            return symbol_by_name(name, imp=self.import_from_cwd)
        try:
            return self.import_from_cwd(name)
        except ModuleNotFoundError as error:
            parent, _, attribute = name.rpartition(".")
            if not parent or error.name != name:
                raise
            try:
                return getattr(self.import_from_cwd(parent), attribute)
            except AttributeError:
                raise error from None

    def cmdline_config_parser(
        self,
        args: Iterable[str],
        namespace: str = "celery",
        re_type: re.Pattern[str] = RE_TYPE,
        extra_types: Mapping[str, Any] | None = None,
        override_types: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Settings from ``section.name=value`` arguments, or ``section.name=(type)value``, which
        is how settings of the program's own are given; ``.name`` is one of ``namespace``.

        ``re_type`` finds the type before a value, ``extra_types`` are functions of a text by the
        names of further types, ``override_types`` names of types to take in place of others.
        Raises `ImproperlyConfigured` for a setting or a type that does not exist, or a value that
        does not fit.
        """
        types = {**CONVERTERS, **(extra_types or {})}
        instead = dict(override_types or {})

        def value_of(argument: str, name: str, text: str, wanted: str) -> Any:
            found = re_type.match(text)
            kind = found.group(1) if found else wanted
            kind = instead.get(kind, kind)
            if kind not in types:
                raise ImproperlyConfigured(f"no type {kind!r} (in {argument!r})")
            try:
                return types[kind](text[found.end() :] if found else text)
            except ValueError as error:
                raise ImproperlyConfigured(
                    f"{argument!r}: {name} wants a {wanted} ({error})"
                ) from None

        return dict(_from_argument(each, namespace, value_of) for each in args)

    def now(self, utc: bool = True) -> datetime:
        return datetime.now(timezone.utc) if utc else datetime.now().astimezone()


def autodiscover_tasks(
    packages: Iterable[str], related_name: str | None = "tasks"
) -> list[ModuleType | None]:
    """The task module of every package, imported; ``None`` for one that has none."""
    return [find_related_module(package, related_name) for package in packages]


find_related_module = related_module


def _listed(value: Any) -> list[str]:
    return [value] if isinstance(value, str) else list(value or ())


def _from_argument(
    argument: str, namespace: str, value_of: Callable[[str, str, str, str], Any]
) -> tuple[str, Any]:
    name, equals, text = argument.partition("=")
    section, dot, key = name.lower().strip().partition(".")
    wanted = f"{section or namespace}_{key}" if dot else section
    try:
        found = find(wanted, namespace)
    except KeyError:
        if text.startswith("("):  # one of the program's own, with its type
            return wanted, value_of(argument, wanted, text, "string")
        raise ImproperlyConfigured(f"no setting {name!r} (in {argument!r})") from None
    full = "_".join(part for part in (found.namespace, found.key) if part)
    if not equals:
        raise ImproperlyConfigured(f"{argument!r}: write {name}=value")
    return full, value_of(argument, full, text, found.type.type)
