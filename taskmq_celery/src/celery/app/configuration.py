"""Where an app's settings and task modules come from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from celery.exceptions import ImproperlyConfigured
from celery.loaders import get_loader_cls
from celery.utils.dispatch import Signal

from .utils import Settings, Source

if TYPE_CHECKING:
    from celery.loaders.base import BaseLoader

__all__ = ("Configured",)

ROUTING = frozenset({"task_create_missing_queues", "task_routes"})
"""Settings that ``app.amqp.router`` is made from."""

ENVVAR_MISSING = (
    "The environment variable {0!r} is not set: it has to name the module with the configuration, "
    'as in {0}="proj.celeryconfig"'
)


class Configured:
    """The part of an app that reads its configuration; `celery.app.base.Celery` is the whole."""

    amqp: Any
    conf: Settings
    configured: bool
    loader_cls: Any
    on_configure: Signal
    on_after_configure: Signal
    _config_source: Any
    _config_source_silent: bool
    _config_found = False
    _discoveries: list[Callable[[], None]]
    _fixups: list[Any]

    def config_from_object(
        self, obj: Any, silent: bool = False, force: bool = False, namespace: str | None = None
    ) -> Any:
        """Take the configuration from a module or object, or from one of that name.

        It is read when a setting is first needed, or at once with ``force``, and where others were
        read before. ``namespace="CELERY"`` takes only settings with that prefix. What was set on
        ``app.conf`` goes first. Gives ``app.conf`` if it was read, ``None`` if it was not.
        """
        at_once = force or self.configured
        self._config_source = obj
        self._config_source_silent = silent
        self.configured = False
        self.conf.set_source(self._load_config, namespace)
        if not at_once:
            return None
        self.conf.load()
        return self.conf if self._config_found else None

    def config_from_envvar(
        self, variable_name: str, silent: bool = False, force: bool = False
    ) -> Any:
        """Take the configuration from the module that an environment variable names."""
        module_name = os.environ.get(variable_name)
        if not module_name:
            if silent:
                return False
            raise ImproperlyConfigured(ENVVAR_MISSING.format(variable_name))
        return self.config_from_object(module_name, silent=silent, force=force)

    def config_from_cmdline(self, argv: Iterable[str], namespace: str = "celery") -> None:
        """Settings from a command line: ``worker.concurrency=4``."""
        self.conf.update(self.loader.cmdline_config_parser(argv, namespace))

    @property
    def namespace(self) -> str | None:
        """The prefix of setting names in the configuration source, and in ``conf.update``."""
        found: str | None = self.conf.namespace
        return found

    @namespace.setter
    def namespace(self, value: str | None) -> None:
        self.conf.set_namespace(value)

    def add_defaults(self, fun: Any) -> None:
        """Defaults from a dict, or from a function that gives one."""
        self.conf.add_defaults(fun() if callable(fun) else fun)

    def _load_config(self) -> Source | None:
        configure: Any = self.on_configure
        if isinstance(configure, Signal):
            configure.send(sender=self)
        else:
            configure()
        source = None
        if self._config_source is not None:
            self._config_found = bool(
                self.loader.config_from_object(
                    self._config_source, silent=self._config_source_silent
                )
            )
            if not self._config_found:
                return None
        elif self._config_source_silent:
            return None
        source = self.loader.conf
        return Source(self.prepare_config(source), self.namespace) if source else None

    def prepare_config(self, c: Any) -> Any:
        """Called with the configuration source, a mapping, before anything is read from it; what
        it gives is read. For subclasses."""
        return c

    def _config_loaded(self) -> None:
        self.configured = True
        self.on_after_configure.send(sender=self, source=self.conf)

    def _config_changed(self, name: str | None) -> None:
        if (name is None or name in ROUTING) and "amqp" in vars(self):
            self.amqp.flush_routes()

    @cached_property
    def loader(self) -> BaseLoader:
        """How modules and configuration are imported."""
        loader: BaseLoader = get_loader_cls(self.loader_cls)(app=self)
        return loader

    def autodiscover_tasks(
        self,
        packages: Any = None,
        related_name: str | None = "tasks",
        force: bool = False,
    ) -> None:
        """Import the ``tasks`` module of each package, when a worker imports the rest.

        ``packages`` is a list or a function that gives one; ``related_name`` another name than
        ``tasks``, or ``None`` for the packages themselves. With ``force`` it happens now. Without
        ``packages`` the fixups are asked, such as Django's for the installed apps.
        """

        def discover() -> None:
            self._autodiscover_tasks(packages, related_name)

        if force:
            discover()
            return
        # Not a receiver of the import_modules signal: its errors would be logged, then raised.
        self._discoveries.append(discover)

    def _autodiscover_tasks(self, packages: Any, related_name: str | None) -> None:
        if packages is None:
            found = [
                package
                for fixup in self._fixups
                if hasattr(fixup, "autodiscover_tasks")
                for package in fixup.autodiscover_tasks()
            ]
            self._autodiscover_tasks_from_names(found, related_name=related_name)
        else:
            self._autodiscover_tasks_from_names(packages, related_name=related_name)

    def _autodiscover_tasks_from_names(self, packages: Any, related_name: str | None) -> None:
        found = packages() if callable(packages) else packages
        self.loader.autodiscover_tasks(list(found), related_name)
