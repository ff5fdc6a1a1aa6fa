"""What this process's worker is doing: its requests and counts, and whether it should stop."""

from __future__ import annotations

import os
import pickle
import platform
import shelve
import zlib
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from kombu.serialization import pickle_protocol
from kombu.utils.objects import cached_property

from celery import __version__
from celery.app import duplicates
from celery.app.duplicates import successful_requests
from celery.exceptions import ImproperlyConfigured, WorkerShutdown, WorkerTerminate
from celery.utils.collections import LimitedSet

__all__ = (
    "SOFTWARE_INFO",
    "Persistent",
    "active_requests",
    "maybe_shutdown",
    "merge_revoked",
    "reserved_requests",
    "revoked",
    "scheduled_requests",
    "task_accepted",
    "task_ready",
    "task_reserved",
    "task_scheduled",
    "total_count",
)

N = TypeVar("N", int, float)


def from_environment(name: str, default: N) -> N:
    """The number in an environment variable, of the kind of its default.

    Raises `ImproperlyConfigured` for what is none.
    """
    text = os.environ.get(name)
    if text is None:
        return default
    kind = type(default)
    try:
        return kind(text)
    except ValueError:
        raise ImproperlyConfigured(
            f"environment variable {name}: expected {kind.__name__}, got {text!r}"
        ) from None


SOFTWARE_INFO = {"sw_ident": "py-celery", "sw_ver": __version__, "sw_sys": platform.system()}

REVOKES_MAX = from_environment("CELERY_WORKER_REVOKES_MAX", 50_000)
"""How many revoked ids this process remembers, and for how many seconds (`REVOKE_EXPIRES`)."""

REVOKE_EXPIRES = from_environment("CELERY_WORKER_REVOKE_EXPIRES", 10_800.0)
SUCCESSFUL_MAX = from_environment("CELERY_WORKER_SUCCESSFUL_MAX", duplicates.SUCCESSFUL_MAX)
successful_requests.limit = SUCCESSFUL_MAX
SUCCESSFUL_EXPIRES = from_environment("CELERY_WORKER_SUCCESSFUL_EXPIRES", 10_800.0)
"""Read and checked; what has succeeded is forgotten by number alone."""

requests: dict[str, Any] = {}
"""Every request that arrived and is not finished, by id."""

scheduled_requests: set[Any] = set()
"""Those that wait here for their time."""

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
    scheduled_requests.clear()
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


def merge_revoked(ids: Any) -> None:
    """Add ids that another worker has revoked, or this one at an earlier time: as of now, since
    their times are by another clock."""
    for each in ids or ():
        revoked.add(each)


def task_scheduled(
    request: Any,
    add_request: Callable[[str, Any], Any] = requests.__setitem__,
    add_scheduled_request: Callable[[Any], Any] = scheduled_requests.add,
) -> None:
    """A request has arrived whose time has not come: unless it has, and it runs by now."""
    if request in reserved_requests or request in active_requests:
        return
    add_request(request.id, request)
    add_scheduled_request(request)


def task_reserved(
    request: Any,
    add_request: Callable[[str, Any], Any] = requests.__setitem__,
    add_reserved_request: Callable[[Any], Any] = reserved_requests.add,
) -> None:
    """A request has arrived."""
    scheduled_requests.discard(request)
    add_request(request.id, request)
    add_reserved_request(request)


def task_accepted(
    request: Any,
    _all_total_count: list[int] | None = None,
    add_request: Callable[[str, Any], Any] = requests.__setitem__,
    add_active_request: Callable[[Any], Any] = active_requests.add,
    add_to_total_count: Callable[[Any], Any] = total_count.update,
) -> None:
    """A request has been started."""
    add_request(request.id, request)
    add_active_request(request)
    add_to_total_count({request.name: 1})
    (all_total_count if _all_total_count is None else _all_total_count)[0] += 1


def task_ready(
    request: Any,
    successful: bool = False,
    remove_request: Callable[..., Any] = requests.pop,
    discard_active_request: Callable[[Any], Any] = active_requests.discard,
    discard_reserved_request: Callable[[Any], Any] = reserved_requests.discard,
) -> None:
    """A request is finished."""
    remove_request(request.id, None)
    scheduled_requests.discard(request)
    discard_active_request(request)
    discard_reserved_request(request)


class Persistent:
    """A file with what this process knows to be revoked, and its logical clock (``--statedb``).

    ``state`` is this module, or what looks like it. What the file has is taken over at once;
    `save` writes what there is then. The file is a shelf of pickles, like Celery's own: it is read
    with all rights of this process.
    """

    storage: Any = shelve
    protocol: int = pickle_protocol
    compress = staticmethod(zlib.compress)
    decompress = staticmethod(zlib.decompress)
    _is_open = False

    def __init__(self, state: Any, filename: str, clock: Any = None) -> None:
        self.state = state
        self.filename = filename
        self.clock = clock
        self.merge()

    def open(self) -> Any:
        """The shelf. Raises what ``shelve.open`` does."""
        return self.storage.open(self.filename, protocol=self.protocol, writeback=True)

    @cached_property
    def db(self) -> Any:
        """The shelf, opened when it is first used."""
        opened = self.open()
        self._is_open = True
        return opened

    def merge(self) -> None:
        """Take over what the file has."""
        self._merge_with(self.db)

    def sync(self) -> None:
        """Write what there is."""
        self._sync_with(self.db)
        self.db.sync()

    def save(self) -> None:
        """Write what there is, and close the file."""
        self.sync()
        self.close()

    def close(self) -> None:
        if self._is_open:
            self.db.close()
            self._is_open = False

    def _merge_with(self, d: Any) -> Any:
        packed = d.get("zrevoked")
        for ids in (d.get("revoked"), packed and pickle.loads(self.decompress(packed))):  # noqa: S301  # the operator's own file
            merge_revoked(ids)
        if self.clock:
            d["clock"] = self.clock.adjust(d.get("clock") or 0)
        return d

    def _sync_with(self, d: Any) -> Any:
        self.state.revoked.purge()
        d.pop("revoked", None)  # as files of long ago have it
        d["zrevoked"] = self.compress(self._dumps(self.state.revoked))
        d["clock"] = self.clock.forward() if self.clock else 0
        return d

    def _dumps(self, obj: Any) -> bytes:
        return pickle.dumps(obj, protocol=self.protocol)
