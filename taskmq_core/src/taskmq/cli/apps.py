"""Finding the app that a command is about: by its path, or by the URL of its store alone."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from taskmq import App, Config, ConfigError, TaskmqError
from taskmq.checks import nearest

from .exits import CommandFailed, Exit

__all__ = ["explain_import", "load_app", "open_app", "open_store", "plugins_of", "program_of"]

HOW = "pass --app module:attribute or set TASKMQ_APP"


def open_app(arguments: argparse.Namespace) -> App:
    """The app with all its tasks, for commands that need them. Raises `ConfigError`."""
    spec = _spec(arguments)
    if not spec:
        raise ConfigError(f"which app? {HOW}, e.g. --app tasks:app for `app` in tasks.py")
    app = load_app(spec)
    app.load_plugins(*plugins_of(arguments))
    with explain_import(spec):
        app.load()
    return app


def open_store(arguments: argparse.Namespace) -> App:
    """An app for commands that only look at the store: a bare one around ``--transport``, or the
    one that `open_app` finds. Raises `ConfigError`."""
    spec = _spec(arguments)
    if arguments.transport:
        plugins = plugins_of(arguments)
        return App(Config.from_env(transport=arguments.transport, plugins=plugins))
    if spec:
        return open_app(arguments)
    if os.environ.get("TASKMQ_TRANSPORT"):
        return App(Config.from_env(plugins=plugins_of(arguments)))
    raise ConfigError(f"which store? {HOW}, or pass --transport URL or set TASKMQ_TRANSPORT")


def program_of(arguments: argparse.Namespace) -> str:
    """What the program is called whose app it is, however its path is written; empty without."""
    spec = _spec(arguments)
    return spec if not spec or ":" in spec else f"{spec}:app"


def plugins_of(arguments: argparse.Namespace) -> tuple[str, ...]:
    """The plugins of ``TASKMQ_PLUGINS`` and ``--plugins``: where a program runs decides on them,
    whatever its own configuration says. The current directory is on the path."""
    _import_from_here()
    named = (*Config.from_env().plugins, *(getattr(arguments, "plugins", None) or ()))
    return tuple(dict.fromkeys(named))


def _import_from_here() -> None:
    if str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))


def _spec(arguments: argparse.Namespace) -> str:
    if arguments.app and arguments.transport:
        raise ConfigError("pass --app or --transport, not both: an app brings its own store")
    return arguments.app or os.environ.get("TASKMQ_APP", "")


def load_app(spec: str) -> App:
    """The `App` at ``module:attribute``; the attribute may be left out if it is ``app``.

    The current directory is on the path, as it is for ``python -m``. Raises `ConfigError` that
    says what is missing, or where the module's own code failed.
    """
    name, _, path = spec.partition(":")
    if not name or name.endswith(".py") or "/" in name:
        hint = Path(name).stem or "tasks"
        raise ConfigError(f"{spec!r} is no app path: write a module's name, e.g. {hint}:app")
    _import_from_here()
    with explain_import(name):
        module = importlib.import_module(name)
    return _app_in(module, name, path or "app")


def _app_in(module: ModuleType, name: str, path: str) -> App:
    found: Any = module
    for part in path.split("."):
        if not hasattr(found, part):
            apps = [key for key, value in vars(module).items() if isinstance(value, App)]
            hint = nearest(part, dir(found))
            if apps:
                hint = f"; there is {name}:{apps[0]}"
            raise ConfigError(f"module {name!r} has no {path!r}{hint}")
        found = getattr(found, part)
    if isinstance(found, App):
        return found
    kind = type(found)
    if kind.__module__.partition(".")[0] == "celery":
        raise ConfigError(f"{name}:{path} is a Celery app: run it with `celery -A {name}`")
    raise ConfigError(f"{name}:{path} is of type {kind.__qualname__}, not a taskmq.App")


@contextmanager
def explain_import(spec: str) -> Iterator[None]:
    """Tell what went wrong in the user's modules, and where, in one line."""
    name = spec.partition(":")[0]
    try:
        yield
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if not f"{name}.".startswith(f"{missing}."):
            raise _failed(name, error) from error
        raise ConfigError(
            f"no module {missing!r} (looked in {Path.cwd()} and Python's path)"
        ) from error
    except ConfigError as error:
        place = _place(error)
        if place is None:
            raise  # ours alone: nothing of the user's was running
        raise ConfigError(f"{error} ({place})") from error
    except TaskmqError:
        raise  # a store that does not answer has its own exit code, wherever it was asked
    except Exception as error:
        raise _failed(name, error) from error
    except SystemExit as error:
        message = f"importing {name!r} ended the program (exit {error.code}): is it a script?"
        raise CommandFailed(message, Exit.USAGE) from error


def _failed(name: str, error: Exception) -> ConfigError:
    text, place = str(error), _place(error)
    if isinstance(error, SyntaxError):
        line = (error.text or "").strip()
        text, place = error.msg, f"{_short(error.filename or '?')} line {error.lineno}: {line}"
    where = f" ({place})" if place else ""
    return ConfigError(f"importing {name!r} failed: {type(error).__name__}: {text}{where}")


def _place(error: BaseException) -> str | None:
    """The user's own line that failed: the last one below the current directory, or else the last
    one that is neither ours nor the import system's."""
    ours = str(Path(__file__).parents[1])
    here = str(Path.cwd())
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((ours, "<frozen")) and "importlib" not in frame.filename
    ]
    own = [
        frame
        for frame in frames
        if frame.filename.startswith(here) and "site-packages" not in frame.filename
    ]
    if not frames:
        return None
    last = (own or frames)[-1]
    return f"{_short(last.filename)} line {last.lineno}: {last.line}"


def _short(filename: str) -> str:
    """A path as the user knows it: from the current directory, where it is below that."""
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename
