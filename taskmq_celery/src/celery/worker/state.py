"""What this process's worker is doing: its requests and counts, and whether it should stop."""

from __future__ import annotations

import platform
from collections import Counter
from typing import Any

from celery import __version__
from celery.app.duplicates import successful_requests
from celery.exceptions import WorkerShutdown, WorkerTerminate
from celery.utils.collections import LimitedSet

__all__ = (
    "SOFTWARE_INFO",
    "active_requests",
    "maybe_shutdown",
    "reserved_requests",
    "reset_state",
    "revoked",
    "revoked_stamps",
    "successful_requests",
    "task_accepted",
    "task_ready",
    "task_reserved",
    "total_count",
)

SOFTWARE_INFO = {"sw_ident": "py-celery", "sw_ver": __version__, "sw_sys": platform.system()}

REVOKES_MAX = 50_000
REVOKE_EXPIRES = 10_800.0

requests: dict[str, Any] = {}
"""Every request that arrived and is not finished, by id."""

reserved_requests: set[Any] = set()
active_requests: set[Any] = set()
total_count: Counter[str] = Counter()
"""How many tasks were started, by name."""

all_total_count = [0]
revoked = LimitedSet(maxlen=REVOKES_MAX, expires=REVOKE_EXPIRES)
"""Ids that this process was told of; the store knows of all that are in it."""

revoked_stamps: dict[str, Any] = {}
"""Stamps of tasks that are not to run, by name: a value, or several."""

should_stop: bool | int | None = None
"""Set to true, or to an exit code, to make the worker finish what runs and stop."""

should_terminate: bool | int | None = None
"""The same, without waiting for what runs."""


def reset_state() -> None:
    """Forget everything, as between tests."""
    requests.clear()
    reserved_requests.clear()
    active_requests.clear()
    total_count.clear()
    all_total_count[0] = 0
    successful_requests.clear()
    revoked.clear()
    revoked_stamps.clear()


def maybe_shutdown() -> None:
    """Raise `WorkerTerminate` or `WorkerShutdown` if the worker was asked to stop."""
    if should_terminate is not None and should_terminate is not False:
        raise WorkerTerminate(should_terminate)
    if should_stop is not None and should_stop is not False:
        raise WorkerShutdown(should_stop)


def task_reserved(request: Any) -> None:
    """A request has arrived."""
    requests[request.id] = request
    reserved_requests.add(request)


def task_accepted(request: Any) -> None:
    """A request has been started."""
    requests[request.id] = request
    active_requests.add(request)
    total_count[request.name] += 1
    all_total_count[0] += 1


def task_ready(request: Any, successful: bool = False) -> None:
    """A request is finished."""
    requests.pop(request.id, None)
    active_requests.discard(request)
    reserved_requests.discard(request)
