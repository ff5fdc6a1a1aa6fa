"""Pools: how a worker runs several tasks at once."""

from __future__ import annotations

import os
import sys
from typing import Any

from kombu.utils.imports import symbol_by_name

__all__ = ("get_available_pool_names", "get_implementation")

ALIASES = {
    "prefork": "celery.concurrency.prefork:TaskPool",
    "eventlet": "celery.concurrency.eventlet:TaskPool",
    "gevent": "celery.concurrency.gevent:TaskPool",
    "solo": "celery.concurrency.solo:TaskPool",
    "processes": "celery.concurrency.prefork:TaskPool",
}
if sys.modules.get("concurrent.futures", ...) is not None:  # a program may do without threads
    ALIASES["threads"] = "celery.concurrency.thread:TaskPool"

OWN = "custom"
"""The name of the class that the variable ``CELERY_CUSTOM_WORKER_POOL`` names."""


def get_implementation(cls: Any) -> Any:
    """The pool class of a name, of a ``module:Class`` path, or ``cls`` itself."""
    if cls == OWN:
        cls = os.environ.get("CELERY_CUSTOM_WORKER_POOL") or cls
    return symbol_by_name(cls, ALIASES)


def get_available_pool_names() -> tuple[str, ...]:
    """The names that ``-P`` takes."""
    return (*ALIASES, OWN)
