"""The result of one task, asked for in the store."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import TYPE_CHECKING, Any

from vine import promise

from celery import states
from celery._state import app_or_default
from celery.exceptions import TimeoutError
from celery.local import Subscriptable
from celery.utils.time import maybe_iso8601
from taskmq_celery.results import LOOK_AGAIN, ended, forget, is_known, wait

from .blocking import assert_will_not_block
from .relatives import Relatives, ResultBase

if TYPE_CHECKING:
    from celery.app.base import Celery

__all__ = ("AsyncResult", "result_from_tuple")


class AsyncResult(Relatives, Subscriptable):
    """The result of a task that was called, by its id. Every look asks the backend, until the task
    is finished.

    Where the backend has no record of the end, the engine is asked as well: it has one for every
    task that it ran, also of those that no worker could tell of (revoked, expired, lost).
    """

    app: Any = None
    backend: Any = None
    id: Any = None

    TimeoutError = TimeoutError

    def __init__(
        self,
        id: str,
        backend: Any = None,
        task_name: str | None = None,
        app: Celery | None = None,
        parent: Any = None,
    ) -> None:
        if id is None:
            raise ValueError(f"AsyncResult requires valid id, not {type(id)}")
        self.app = app_or_default(app or self.app)
        self.id = id
        self.backend = backend or self.app.backend
        self.parent = parent
        self._task_name = task_name
        self._cache: dict[str, Any] | None = None
        self._ignored = False

    @property
    def ignored(self) -> bool:
        """Whether the call said that nobody wants the result; `get` gives ``None`` then."""
        return getattr(self, "_ignored", False)

    @ignored.setter
    def ignored(self, value: bool) -> None:
        self._ignored = value

    _on_ready: Any = None

    @property
    def on_ready(self) -> Any:
        """A promise that is kept with this result when it is there."""
        if self._on_ready is None:
            self._on_ready = promise()
            if self._cache is not None:
                self._on_ready(self)
        return self._on_ready

    @on_ready.setter
    def on_ready(self, promise: Any) -> None:
        self._on_ready = promise

    def then(
        self,
        callback: Callable[..., Any],
        on_error: Callable[..., Any] | None = None,
        weak: bool = False,
    ) -> Any:
        """Call ``callback(result)`` when the result is there. Records come while anything waits
        for results in this process."""
        self.backend.add_pending_result(self, weak=weak)
        return self.on_ready.then(callback, on_error)

    # -- waiting -----------------------------------------------------------------------------

    def get(
        self,
        timeout: float | None = None,
        propagate: bool = True,
        interval: float = 0.5,
        no_ack: bool = True,
        follow_parents: bool = True,
        callback: Callable[..., Any] | None = None,
        on_message: Callable[..., Any] | None = None,
        on_interval: Callable[[], Any] | None = None,
        disable_sync_subtasks: bool = True,
        EXCEPTION_STATES: frozenset[str] = states.EXCEPTION_STATES,  # noqa: N803  # Celery's name
        PROPAGATE_STATES: frozenset[str] = states.PROPAGATE_STATES,  # noqa: N803  # Celery's name
    ) -> Any:
        """Wait for what the task returns.

        Raises what the task raised, unless ``propagate`` is off; `TimeoutError` after ``timeout``
        seconds; ``RuntimeError`` inside a task (see `allow_join_result`). ``callback(id, value)``
        is called with what it gives; ``on_interval()`` every ``interval`` seconds until then.
        """
        if self.ignored:
            return None
        if disable_sync_subtasks:
            assert_will_not_block()
        behind = follow_parents and propagate and self.parent is not None
        if behind:
            self._maybe_reraise_parent_error()
            on_interval = _both(on_interval, self._maybe_reraise_parent_error)
        if self._cache is None and on_message is None and self._runs_here():
            started = time.monotonic()
            meta = wait(
                self.app, self.id, timeout=timeout, interval=interval, on_interval=on_interval
            )
            if meta is None:
                raise TimeoutError("The operation timed out.")
            self._maybe_set_cache(self._told(meta))
            if timeout is not None:  # it may be ignored there, and told of by the program
                timeout = max(0.0, timeout - (time.monotonic() - started))
        if self._cache is None:
            self.backend.add_pending_result(self)
            if _asks_engine(self.backend):
                on_interval = _both(on_interval, self._look_at_engine())
            try:
                return self.backend.wait_for_pending(
                    self,
                    timeout=timeout,
                    interval=interval,
                    on_interval=on_interval,
                    no_ack=no_ack,
                    propagate=propagate,
                    callback=callback,
                    on_message=on_message,
                )
            except Exception:
                if behind:
                    self._maybe_reraise_parent_error()
                raise
        if behind:
            self._maybe_reraise_parent_error()  # it is why this one did not run
        return self.maybe_throw(propagate=propagate, callback=callback)

    wait = get

    def _runs_here(self) -> bool:
        """Whether the engine knows the task: then it wakes whoever waits. Where others wait for
        records in this process (`then`), this one has to let them come."""
        if not _asks_engine(self.backend) or any(self.backend._pending_results):
            return False
        return is_known(self.app, self.id)

    def _look_at_engine(self) -> Callable[[], None]:
        """What looks there once in a while: no record may ever come of a task that was revoked."""
        looked = time.monotonic()

        def look() -> None:
            nonlocal looked
            if time.monotonic() - looked >= LOOK_AGAIN:
                self._maybe_set_cache(ended(self.app, self.id))
                looked = time.monotonic()

        return look

    def _told(self, meta: dict[str, Any]) -> dict[str, Any]:
        """The backend's record of a task that has ended, or else the engine's."""
        told: dict[str, Any] = self.backend.get_task_meta(self.id)
        return told if told["status"] in states.READY_STATES else meta

    def _maybe_reraise_parent_error(self) -> None:
        for parent in reversed(list(self._parents())):
            parent.maybe_throw()

    def _parents(self) -> Iterator[Any]:
        parent = self.parent
        while parent is not None:
            yield parent
            parent = parent.parent

    def maybe_throw(
        self, propagate: bool = True, callback: Callable[..., Any] | None = None
    ) -> Any:
        """The result as it is now; raises it if it is an error, unless ``propagate`` is off."""
        meta = self._get_task_meta() if self._cache is None else self._cache
        value = meta["result"]
        if meta["status"] in states.PROPAGATE_STATES and propagate:
            self._raise(value, self._to_remote_traceback(meta.get("traceback")))
        if callback is not None:
            callback(self.id, value)
        return value

    maybe_reraise = maybe_throw

    def throw(self, *args: Any, **kwargs: Any) -> None:
        """Have it fail for those who wait by `then`: an exception, and whether to raise it if
        nobody does (``propagate``), which is so unless told otherwise."""
        self.on_ready.throw(*args, **kwargs)

    def _raise(self, exc: Any, traceback: Any = None) -> None:
        """Raise an exception as this result's."""
        error = exc if isinstance(exc, BaseException) else Exception(exc)
        raise error if traceback is None else error.with_traceback(traceback)

    def _to_remote_traceback(self, text: str | None) -> Any:
        """A traceback from its text, with ``task_remote_tracebacks`` and where tblib is there."""
        if not text or not self.app.conf.task_remote_tracebacks:
            return None
        try:
            tblib = import_module("tblib")
        except ImportError:
            return None
        return tblib.Traceback.from_string(text).as_traceback()

    # -- looking -----------------------------------------------------------------------------

    def _get_task_meta(self) -> dict[str, Any]:
        if self._cache is not None:
            return self._cache
        meta: dict[str, Any] = self.backend.get_task_meta(self.id)
        if meta.get("status") not in states.READY_STATES and _asks_engine(self.backend):
            meta = ended(self.app, self.id) or meta
        found: dict[str, Any] = self._maybe_set_cache(meta)
        return found

    def _iter_meta(self, **kwargs: Any) -> Iterator[dict[str, Any]]:
        return iter([self._get_task_meta()])

    def _maybe_set_cache(self, meta: Any) -> Any:
        """Keep a record if it tells of the end."""
        if not meta or meta.get("status") not in states.READY_STATES:
            return meta
        kept = self._set_cache(self.backend.meta_from_decoded(meta))
        self.backend.remove_pending_result(self)  # however it came to be known
        self.on_ready(self)
        return kept

    def _set_cache(self, meta: dict[str, Any]) -> dict[str, Any]:
        children = meta.get("children")
        if children:
            meta["children"] = [result_from_tuple(child, self.app) for child in children]
        self._cache = meta
        return meta

    @property
    def state(self) -> str:
        """``PENDING`` (waits, or is unknown), ``STARTED`` (with ``track_started``), ``RETRY``,
        ``SUCCESS``, ``FAILURE`` or ``REVOKED``."""
        return str(self._get_task_meta()["status"])

    status = state

    @property
    def result(self) -> Any:
        """What the task returned, or the exception it ended with."""
        return self._get_task_meta()["result"]

    info = result

    @property
    def traceback(self) -> str | None:
        """The traceback of a task that failed, as text."""
        found: str | None = self._get_task_meta().get("traceback")
        return found

    def ready(self) -> bool:
        """Whether the task is finished."""
        return self.state in states.READY_STATES

    def successful(self) -> bool:
        """Whether it returned."""
        return self.state == states.SUCCESS

    def failed(self) -> bool:
        """Whether it raised."""
        return self.state == states.FAILURE

    def exists(self) -> bool:
        """Whether anything is known of the task."""
        if self._cache is not None or self.backend.task_result_exists(self.id):
            return True
        return _asks_engine(self.backend) and is_known(self.app, self.id)

    @property
    def children(self) -> list[Any] | None:
        """Results of the tasks that it called; ``None`` while that is not known."""
        meta = self._get_task_meta()
        found: list[Any] | None = meta.get("children")
        if found is None and meta.get("status") in states.READY_STATES:
            # The engine told of the end, and the backend of them: perhaps later.
            children = None
            if hasattr(type(self.backend), "keep_children"):
                children = self.backend.get_children(self.id)
            elif _asks_engine(self.backend):
                children = self.backend.get_task_meta(self.id).get("children")
            if children is not None:
                found = meta["children"] = [result_from_tuple(one, self.app) for one in children]
        return found

    @property
    def task_id(self) -> Any:
        """Another name of ``id``."""
        return self.id

    @task_id.setter
    def task_id(self, id: str) -> None:
        self.id = id

    @property
    def name(self) -> Any:
        """The name of the task."""
        return self._get_task_meta().get("name")

    @property
    def args(self) -> Any:
        return self._get_task_meta().get("args")

    @property
    def kwargs(self) -> Any:
        return self._get_task_meta().get("kwargs")

    @property
    def worker(self) -> Any:
        """The worker that had the task last."""
        return self._get_task_meta().get("worker")

    @property
    def retries(self) -> Any:
        return self._get_task_meta().get("retries")

    @property
    def queue(self) -> Any:
        return self._get_task_meta().get("queue")

    @property
    def date_done(self) -> Any:
        """When it was finished, as aware datetime."""
        return maybe_iso8601(self._get_task_meta().get("date_done"))

    @property
    def supports_native_join(self) -> bool:
        return bool(self.backend.supports_native_join)

    # -- acting ------------------------------------------------------------------------------

    def forget(self) -> None:
        """Delete the result, and that of the tasks before."""
        self._cache = None
        if self.parent is not None:
            self.parent.forget()
        self.backend.remove_pending_result(self)
        self.backend.forget(self.id)
        if _asks_engine(self.backend) and is_known(self.app, self.id):
            forget(self.app, self.id)

    def revoke(
        self,
        connection: Any = None,
        terminate: bool = False,
        signal: Any = None,
        wait: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Take the task out: it will not start. One that runs already is asked to stop, or with
        ``terminate`` its process is killed."""
        self.app.control.revoke(
            self.id,
            connection=connection,
            terminate=terminate,
            signal=signal,
            reply=wait,
            timeout=timeout,
        )

    def revoke_by_stamped_headers(
        self,
        headers: Any,
        connection: Any = None,
        terminate: bool = False,
        signal: Any = None,
        wait: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Take out every task with one of these stamps."""
        self.app.control.revoke_by_stamped_headers(
            headers,
            connection=connection,
            terminate=terminate,
            signal=signal,
            reply=wait,
            timeout=timeout,
        )

    def __del__(self) -> None:
        """Nobody can wait for it through this object any more."""
        if self.backend is not None and not sys.is_finalizing():
            self.backend.remove_pending_result(self)

    # -- as a value --------------------------------------------------------------------------

    def as_tuple(self) -> tuple[Any, Any]:
        """A form that can be stored: see `result_from_tuple`."""
        parent = self.parent
        return (self.id, parent and parent.as_tuple()), None

    def as_list(self) -> list[str]:
        """The ids of this result and the ones before."""
        found, node = [self.id], self.parent
        while node is not None:
            found.append(node.id)
            node = node.parent
        return found

    def __eq__(self, other: object) -> bool:
        if isinstance(other, AsyncResult):
            return bool(other.id == self.id)
        if isinstance(other, str):
            return bool(other == self.id)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __str__(self) -> str:
        return str(self.id)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.id}>"

    def __copy__(self) -> AsyncResult:
        return type(self)(self.id, self.backend, self._task_name, self.app, self.parent)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_result, (self.id, self._task_name, self.parent)

    def __reduce_args__(self) -> tuple[Any, ...]:
        """What makes it again in this process; the app is the current one there."""
        return self.id, self.backend, self._task_name, None, self.parent


def result_from_tuple(r: Any, app: Celery | None = None) -> Any:
    """A result from what ``as_tuple`` gave; a result as it is."""
    if isinstance(r, ResultBase):
        return r
    app = app_or_default(app)
    head, members = r
    id, parent = head if isinstance(head, (list, tuple)) else (head, None)
    above = result_from_tuple(parent, app) if parent else None
    if members is not None and isinstance(head, (list, tuple)):
        results = [result_from_tuple(each, app) for each in members]
        return app.GroupResult(id, results, parent=above)
    return app.AsyncResult(id, parent=above)


def _asks_engine(backend: Any) -> bool:
    """Whether the records of a backend are beside the engine's own."""
    return getattr(backend, "asks_engine", False) is True


def _both(first: Callable[[], Any] | None, second: Callable[[], Any]) -> Callable[[], None]:
    def call() -> None:
        if first is not None:
            first()
        second()

    return call


def _unpickle_result(id: str, task_name: str | None, parent: Any) -> AsyncResult:
    return AsyncResult(id, task_name=task_name, parent=parent)
