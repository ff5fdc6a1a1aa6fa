"""Celery's API on the taskmq engine.

>>> from celery import Celery
>>> app = Celery("proj", broker="sqlite:///jobs.db", backend="rpc://")

Everything is loaded when it is first asked for: importing this package costs next to nothing.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # typing has it, and is half of what an import of this package would cost
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from kombu.utils.uuid import uuid

    from celery._state import current_app, current_task
    from celery.app import bugreport, shared_task
    from celery.app.base import Celery
    from celery.app.task import Task
    from celery.canvas import (
        Signature,
        chain,
        chord,
        chunks,
        group,
        maybe_signature,
        signature,
        subtask,
        xmap,
        xstarmap,
    )
    from celery.versions import version_info_t

    from . import execute, local, log, messaging, registry

    SERIES: str
    VERSION: version_info_t
    VERSION_BANNER: str
    __version__: str
    version_info: version_info_t

__all__ = (
    "SERIES",
    "VERSION",
    "VERSION_BANNER",
    "Celery",
    "Signature",
    "Task",
    "__author__",
    "__contact__",
    "__docformat__",
    "__homepage__",
    "__version__",
    "_find_option_with_arg",
    "bugreport",
    "chain",
    "chord",
    "chunks",
    "current_app",
    "current_task",
    "execute",
    "group",
    "local",
    "log",
    "maybe_patch_concurrency",
    "maybe_signature",
    "messaging",
    "registry",
    "shared_task",
    "signature",
    "subtask",
    "uuid",
    "version_info",
    "version_info_t",
    "xmap",
    "xstarmap",
)

__author__ = "taskmq contributors"
__contact__ = ""  # no address is published, and no page
__homepage__ = ""
__docformat__ = "markdown"

_WHERE = {
    "Celery": "celery.app.base",
    "Signature": "celery.canvas",
    "Task": "celery.app.task",
    "bugreport": "celery.app",
    "chain": "celery.canvas",
    "chord": "celery.canvas",
    "chunks": "celery.canvas",
    "current_app": "celery._state",
    "current_task": "celery._state",
    "group": "celery.canvas",
    "maybe_signature": "celery.canvas",
    "shared_task": "celery.app",
    "signature": "celery.canvas",
    "subtask": "celery.canvas",
    "uuid": "kombu.utils.uuid",
    **dict.fromkeys(("SERIES", "VERSION", "VERSION_BANNER", "version_info_t"), "celery.versions"),
    **dict.fromkeys(("__version__", "version_info"), "celery.versions"),
    "xmap": "celery.canvas",
    "xstarmap": "celery.canvas",
}
_MODULES = frozenset(
    {
        *(
            "_state",
            "app",
            "apps",
            "backends",
            "beat",
            "bin",
            "canvas",
            "concurrency",
            "exceptions",
            "execute",
        ),
        *(
            "loaders",
            "local",
            "log",
            "messaging",
            "platforms",
            "registry",
            "result",
            "schedules",
            "signals",
            "states",
            "utils",
        ),
        "worker",
    }
)


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(importlib.import_module(_WHERE[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"celery.{name}")
    raise AttributeError(f"module 'celery' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _find_option_with_arg(
    argv: list[str],
    short_opts: Iterable[str] | None = None,
    long_opts: Iterable[str] | None = None,
) -> str:
    """What a command line says for an option, ``-P value`` or ``--pool=value``. Raises
    ``KeyError`` if it says nothing."""
    short, long = set(short_opts or ()), set(long_opts or ())
    for place, argument in enumerate(argv):
        name, equals, value = argument.partition("=")
        if equals and name in long:
            return value
        if argument in short | long and place + 1 < len(argv):
            return argv[place + 1]
    raise KeyError("|".join(sorted(short | long)))


def maybe_patch_concurrency(*args: Any, **kwargs: Any) -> None:
    """Accepted for Celery's sake: green threads are patched in by their own tools."""
