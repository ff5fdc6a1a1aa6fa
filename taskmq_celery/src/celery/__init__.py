"""Celery's API on the taskmq engine.

>>> from celery import Celery
>>> app = Celery("proj", broker="sqlite:///jobs.db", backend="rpc://")

Everything is loaded when it is first asked for: importing this package costs next to nothing.
"""

from __future__ import annotations

import importlib
import re
from importlib import metadata
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kombu.utils.uuid import uuid

    from celery._state import current_app, current_task
    from celery.app import shared_task
    from celery.app.base import Celery
    from celery.app.task import Task
    from celery.canvas import Signature, chain, maybe_signature, signature, subtask

__all__ = (
    "VERSION",
    "VERSION_BANNER",
    "Celery",
    "Signature",
    "Task",
    "chain",
    "current_app",
    "current_task",
    "maybe_signature",
    "shared_task",
    "signature",
    "subtask",
    "uuid",
    "version_info",
    "version_info_t",
)

SERIES = "taskmq"

try:
    # Agrees with what other packages' requirements were compared with when they were installed.
    __version__ = metadata.version("celery")
except metadata.PackageNotFoundError:
    __version__ = "5.6.3+taskmq"


class version_info_t(NamedTuple):  # noqa: N801  # Celery's name
    """The parts of the version of Celery that this stands for."""

    major: int
    minor: int
    micro: int
    releaselevel: str
    serial: str


def _version_info(text: str) -> version_info_t:
    release, _, local = text.partition("+")
    major, minor, micro = (int(part) for part in re.findall(r"\d+", release)[:3])
    return version_info_t(major, minor, micro, f"+{local}" if local else "", "")


VERSION = version_info = _version_info(__version__)
VERSION_BANNER = f"{__version__} ({SERIES})"

_WHERE = {
    "Celery": "celery.app.base",
    "Signature": "celery.canvas",
    "Task": "celery.app.task",
    "chain": "celery.canvas",
    "current_app": "celery._state",
    "current_task": "celery._state",
    "maybe_signature": "celery.canvas",
    "shared_task": "celery.app",
    "signature": "celery.canvas",
    "subtask": "celery.canvas",
    "uuid": "kombu.utils.uuid",
}
_MODULES = frozenset(
    {
        *("_state", "app", "apps", "backends", "bin", "canvas", "concurrency", "exceptions"),
        *("loaders", "local", "platforms", "result", "schedules", "signals", "states", "utils"),
        "worker",
    }
)
_NOT_YET = frozenset({"bugreport", "chord", "chunks", "group", "xmap", "xstarmap"})


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        value = getattr(importlib.import_module(_WHERE[name]), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"celery.{name}")
    if name in _NOT_YET:
        raise AttributeError(f"celery.{name} is not part of this version yet")
    raise AttributeError(f"module 'celery' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def maybe_patch_concurrency(*args: Any, **kwargs: Any) -> None:
    """Accepted for Celery's sake: green threads are patched in by their own tools."""
