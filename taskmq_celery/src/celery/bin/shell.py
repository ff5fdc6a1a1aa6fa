"""``celery shell``: Python with the app at hand."""

from __future__ import annotations

import code
import importlib
import os
import sys
from collections.abc import Callable
from typing import Any

import click
from click import UsageError

import celery as package
from celery.bin.base import CeleryCommand, handle_preload_options, option

__all__ = ["shell"]

GROUP = "Shell Options"
SYMBOLS = ("Task", "chain", "chord", "chunks", "group", "subtask", "xmap", "xstarmap")


def _ipython(names: dict[str, Any]) -> None:
    """Raises ``ImportError`` if there is none, as `_bpython` does."""
    importlib.import_module("IPython").start_ipython(argv=[], user_ns=names)


def _bpython(names: dict[str, Any]) -> None:
    importlib.import_module("bpython").embed(names)


def _plain(names: dict[str, Any]) -> None:
    try:
        import readline  # not everywhere
        import rlcompleter
    except ImportError:
        pass
    else:
        readline.set_completer(rlcompleter.Completer(names).complete)
        readline.parse_and_bind("tab:complete")
    code.interact(local=names)


SHELLS: dict[str, Callable[[dict[str, Any]], None]] = {
    "ipython": _ipython,
    "bpython": _bpython,
    "python": _plain,
}


@click.command(cls=CeleryCommand, context_settings={"allow_extra_args": True})
@option("-I", "--ipython", "kind", group=GROUP, flag_value="ipython", help="IPython, or an error.")
@option("-B", "--bpython", "kind", group=GROUP, flag_value="bpython", help="bpython, or an error.")
@option("--python", "kind", group=GROUP, flag_value="python", help="Python's own.")
@option("-T", "--without-tasks", group=GROUP, is_flag=True, help="Without the app's tasks.")
@option("--eventlet", group=GROUP, is_flag=True, help="Patch the standard library first.")
@option("--gevent", group=GROUP, is_flag=True, help="Patch the standard library first.")
@click.pass_context
@handle_preload_options
def shell(
    ctx: click.Context,
    kind: str | None,
    without_tasks: bool,
    eventlet: bool,
    gevent: bool,
    **_: Any,
) -> None:
    """Start Python with the app at hand.

    `app` and `celery` are the app; `chain`, `chord`, `chunks`, `group`, `subtask`, `xmap`,
    `xstarmap`, `Task` and the app's tasks are there by name.
    """
    sys.path.insert(0, os.getcwd())  # noqa: PTH109  # a text, as sys.path has them
    if eventlet:
        _patched("eventlet", "monkey_patch")
    if gevent:
        _patched("gevent.monkey", "patch_all")
    app = ctx.obj.app
    app.loader.import_default_modules()
    names = {name: getattr(package, name) for name in SYMBOLS}
    names.update(app=app, celery=app)
    if not without_tasks:
        names.update(
            (task.__name__, task) for task in app.tasks.values() if task.name[:7] != "celery."
        )
    _run(kind, names)


def _patched(module: str, function: str) -> None:
    try:
        getattr(importlib.import_module(module), function)()
    except ImportError as error:
        raise UsageError(f"{module.partition('.')[0]} is not installed: {error}") from None


def _run(kind: str | None, names: dict[str, Any]) -> None:
    """The shell that was asked for, or the best that is there."""
    for each in [kind] if kind else SHELLS:
        try:
            return SHELLS[each](names)
        except ImportError as error:
            if kind:
                raise UsageError(f"{kind} is not installed: {error}") from None
    return None
