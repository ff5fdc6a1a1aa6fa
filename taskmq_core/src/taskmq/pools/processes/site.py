"""What a child works on: the app and the settings that it shares with its worker."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from taskmq import logs
from taskmq.app import App
from taskmq.config import Config
from taskmq.errors import ConfigError
from taskmq.hooks import WorkerHook

from .wire import Hello

__all__ = ["Site", "introduce", "settle", "spec_of"]


@dataclass(frozen=True, slots=True)
class Site:
    """The same in every child of a worker."""

    app: App
    config: Config
    worker: str
    hooks: Sequence[WorkerHook]
    events: bool
    """Whether anybody in the parent wants events."""
    shared: bool
    """Whether a child may open the store."""


def spec_of(app: App) -> str:
    """Where another process finds the app: ``module:attribute``.

    The app itself does not know, but a module that was imported does. Raises `ConfigError` if no
    module has it.
    """
    main = sys.modules["__main__"]  # multiprocessing lists it a second time, as __mp_main__
    for name, module in sorted(sys.modules.items(), key=lambda item: item[1] is main):
        for attribute, value in list(getattr(module, "__dict__", {}).items()):
            if value is app:
                return f"{_importable(name)}:{attribute}"
    raise ConfigError(
        "the processes pool cannot find the app again in a new process: assign it to a variable "
        "of a module, or use start_method='fork'"
    )


def _importable(name: str) -> str:
    main = sys.modules["__main__"]
    if sys.modules[name] is not main:
        return name
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    return spec.name if spec else Path(file).stem if file else name


def introduce(site: Site) -> Hello:
    """What a new process is told. Raises `ConfigError`."""
    return Hello(
        spec=spec_of(site.app),
        path=list(sys.path),
        config=site.config,
        worker=site.worker,
        log_level=logging.getLogger("taskmq").getEffectiveLevel(),
        events=site.events,
        shared=site.shared,
    )


def settle(hello: Hello) -> Site:
    """The site, in a new process: imports the app. Raises whatever its modules raise."""
    sys.path[:] = hello.path
    module, _, attribute = hello.spec.partition(":")
    app = getattr(importlib.import_module(module), attribute)
    app.load_plugins(*hello.config.plugins)
    app.load()
    level = logging.getLevelName(hello.log_level)
    logs.configure(level, format=hello.config.log_format, stream=sys.stderr)
    return Site(
        app=app,
        config=hello.config,
        worker=hello.worker,
        hooks=app.hooks,
        events=hello.events,
        shared=hello.shared,
    )
