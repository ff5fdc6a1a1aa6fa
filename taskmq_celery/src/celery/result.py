"""Results of tasks: handles that ask the store, and results of tasks that ran here."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, Any
from weakref import proxy

from kombu.utils.imports import symbol_by_name
from vine import Thenable, barrier, promise

from celery import states
from celery._state import (
    _set_task_join_will_block,
    _task_join_will_block,
    app_or_default,
    current_app,
    task_join_will_block,
)
from celery.app.configured import properly_configured
from celery.exceptions import (
    ImproperlyConfigured,
    IncompleteStream,
    TaskRevokedError,
    TimeoutError,
)
from celery.utils.time import maybe_iso8601
from taskmq_celery.results import LOOK_AGAIN, ended, forget, is_known, revoke, wait

if TYPE_CHECKING:
    from celery.app.base import Celery

__all__ = (
    "AsyncResult",
    "EagerResult",
    "GroupResult",
    "ResultBase",
    "ResultSet",
    "allow_join_result",
    "assert_will_not_block",
    "denied_join_result",
    "result_from_tuple",
)

E_WOULDBLOCK = """\
Never call result.get() within a task!
See https://docs.celeryq.dev/en/latest/userguide/tasks.html\
#avoid-launching-synchronous-subtasks
"""


def assert_will_not_block() -> None:
    """Raises ``RuntimeError`` in a thread that runs a task."""
    if task_join_will_block():
        raise RuntimeError(E_WOULDBLOCK)


@contextmanager
def allow_join_result() -> Iterator[None]:
    """Let the task in this thread wait for another result meanwhile."""
    before = getattr(_task_join_will_block, "value", None)
    _set_task_join_will_block(False)
    try:
        yield
    finally:
        _set_task_join_will_block(before)


@contextmanager
def denied_join_result() -> Iterator[None]:
    """Treat this thread as one that runs a task meanwhile."""
    before = getattr(_task_join_will_block, "value", None)
    _set_task_join_will_block(True)
    try:
        yield
    finally:
        _set_task_join_will_block(before)


class ResultBase:
    """Base of results. ``parent`` is the result of the task before, in a chain."""

    parent: Any = None


class AsyncResult(ResultBase):
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

    @cached_property
    def on_ready(self) -> Any:
        """A promise that is kept with this result when it is there."""
        made = promise()
        if self._cache is not None:
            made(self)
        return made

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
            meta = wait(
                self.app, self.id, timeout=timeout, interval=interval, on_interval=on_interval
            )
            if meta is None:
                raise TimeoutError("The operation timed out.")
            self._maybe_set_cache(self._told(meta))
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
            self.throw(value, self._to_remote_traceback(meta.get("traceback")))
        if callback is not None:
            callback(self.id, value)
        return value

    maybe_reraise = maybe_throw

    def throw(self, exc: Any, traceback: Any = None) -> None:
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
        apart = hasattr(type(self.backend), "keep_children")
        if found is None and apart and meta.get("status") in states.READY_STATES:
            children = self.backend.get_children(self.id)
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
        with properly_configured():
            revoke(self.app, [self.id], terminate=terminate)

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

    # -- relatives ---------------------------------------------------------------------------

    @property
    def graph(self) -> Any:
        """This result and those of the tasks that it called, as a graph."""
        return self.build_graph()

    def build_graph(self, intermediate: bool = False, formatter: Any = None) -> Any:
        """The graph of results; ``intermediate`` takes tasks that have not ended for leaves."""
        make = symbol_by_name("celery.utils.graph:DependencyGraph")
        style = symbol_by_name("celery.utils.graph:GraphFormatter")
        graph = make(formatter=formatter or style(root=self.id, shape="oval"))
        for parent, node in self.iterdeps(intermediate=intermediate):
            graph.add_arc(node)
            if parent is not None:
                graph.add_edge(parent, node)
        return graph

    def get_leaf(self) -> Any:
        """What the last of the tasks called by tasks returned."""
        value = None
        for _, node in self.iterdeps():
            value = node.get()
        return value

    def iterdeps(self, intermediate: bool = False) -> Iterator[tuple[Any, Any]]:
        """This result and those of the tasks that it called, breadth first, each with the one
        that it belongs to.

        Raises `IncompleteStream` at a task that has not ended, unless ``intermediate``.
        """
        pending: deque[tuple[Any, Any]] = deque([(None, self)])
        while pending:
            parent, node = pending.popleft()
            yield parent, node
            if node.ready():
                pending.extend((node, child) for child in node.children or ())
            elif not intermediate:
                raise IncompleteStream

    def collect(self, intermediate: bool = False, **kwargs: Any) -> Iterator[tuple[Any, Any]]:
        """Wait for this result and those of the tasks that it called: pairs of result and value.

        With a task that calls ten others, each of which calls one that gives a square:

        >>> [value for _, value in result.collect() if isinstance(value, int)]
        [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]
        """
        for _, node in self.iterdeps(intermediate=intermediate):
            yield node, node.get(**kwargs)

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


BaseAsyncResult = AsyncResult


class EagerResult(AsyncResult):
    """The result of a task that ran here and now, by ``apply()``."""

    def __init__(
        self,
        id: str | None,
        ret_value: Any,
        state: str,
        traceback: str | None = None,
        name: str | None = None,
    ) -> None:
        self.id = id
        self._result = ret_value
        self._state = state
        self._traceback = traceback
        self._name = name
        self._ignored = False

    def _get_task_meta(self) -> dict[str, Any]:
        return {
            "task_id": self.id,
            "result": self._result,
            "status": self._state,
            "traceback": self._traceback,
            "name": self._name,
        }

    @property
    def _cache(self) -> dict[str, Any]:  # type: ignore[override]  # it is always there
        return self._get_task_meta()

    def exists(self) -> bool:
        return True

    def then(
        self,
        callback: Callable[..., Any],
        on_error: Callable[..., Any] | None = None,
        weak: bool = False,
    ) -> Any:
        """Call ``callback(result)`` now."""
        return self.on_ready.then(callback, on_error)

    def __del__(self) -> None:
        """Nobody waits for it."""

    def ready(self) -> bool:
        return True

    def get(  # type: ignore[override]  # Celery's signature
        self,
        timeout: float | None = None,
        propagate: bool = True,
        disable_sync_subtasks: bool = True,
        **kwargs: Any,
    ) -> Any:
        """What the task returned; raises what it raised, unless ``propagate`` is off."""
        if disable_sync_subtasks:
            assert_will_not_block()
        if self.successful():
            return self._result
        if self.state in states.PROPAGATE_STATES:
            if propagate:
                self.throw(self._result)
            return self._result
        return None

    wait = get  # type: ignore[assignment]  # the same

    def forget(self) -> None:
        """There is nothing to forget."""

    def revoke(self, *args: Any, **kwargs: Any) -> None:
        """Make the state ``REVOKED``."""
        self._state = states.REVOKED
        self._result = TaskRevokedError("revoked")
        self._traceback = None

    @property
    def supports_native_join(self) -> bool:
        return False

    def __copy__(self) -> EagerResult:
        return type(self)(self.id, self._result, self._state, self._traceback, self._name)

    def __reduce__(self) -> tuple[Any, ...]:
        state = (self.id, self._result, self._state, self._traceback, self._name)
        return type(self), state


def _asks_engine(backend: Any) -> bool:
    """Whether the records of a backend are beside the engine's own."""
    return getattr(backend, "asks_engine", False) is True


def _both(first: Callable[[], Any] | None, second: Callable[[], Any]) -> Callable[[], None]:
    def call() -> None:
        if first is not None:
            first()
        second()

    return call


class ResultSet(ResultBase):
    """Several results as one."""

    _app: Any = None
    results: Any = None
    """The results, in order."""

    def __init__(
        self, results: Iterable[Any], app: Any = None, ready_barrier: Any = None, **kwargs: Any
    ) -> None:
        self._app = app
        self.results = results if isinstance(results, list) else list(results)
        self.on_ready = promise(args=(proxy(self),))
        self._on_full = ready_barrier or barrier(self.results)
        if self._on_full:
            self._on_full.then(promise(self._on_ready, weak=True))

    # -- as a set ----------------------------------------------------------------------------

    def add(self, result: Any) -> None:
        """Add a result, unless it is there."""
        if result not in self.results:
            self.results.append(result)
            if self._on_full.ready:
                self._on_full = barrier(self.results)
                self.on_ready = promise(args=(proxy(self),))
                self._on_full.then(promise(self._on_ready, weak=True))
            else:
                self._on_full.add(result)

    def remove(self, result: Any) -> None:
        """Take a result out, given as such or by its id. Raises ``KeyError`` if it is not there."""
        wanted = self.app.AsyncResult(result) if isinstance(result, str) else result
        try:
            self.results.remove(wanted)
        except ValueError:
            raise KeyError(result) from None

    def discard(self, result: Any) -> None:
        """Take a result out, if it is there."""
        wanted = self.app.AsyncResult(result) if isinstance(result, str) else result
        if wanted in self.results:
            self.results.remove(wanted)

    def update(self, results: Iterable[Any]) -> None:
        """Add those that are not there."""
        for each in results:
            self.add(each)

    def clear(self) -> None:
        """Take all out."""
        self.results[:] = []

    def __iter__(self) -> Iterator[Any]:
        return iter(self.results)

    def __getitem__(self, index: int) -> Any:
        return self.results[index]

    def __len__(self) -> int:
        return len(self.results)

    # -- looking -----------------------------------------------------------------------------

    def successful(self) -> bool:
        """Whether every task returned."""
        return all(result.successful() for result in self.results)

    def failed(self) -> bool:
        """Whether a task raised."""
        return any(result.failed() for result in self.results)

    def maybe_throw(
        self, callback: Callable[..., Any] | None = None, propagate: bool = True
    ) -> None:
        """Raise the error of the first that has one."""
        for result in self.results:
            result.maybe_throw(callback=callback, propagate=propagate)

    maybe_reraise = maybe_throw

    def waiting(self) -> bool:
        """Whether a task is not finished."""
        return any(not result.ready() for result in self.results)

    def ready(self) -> bool:
        """Whether every task is finished."""
        return all(result.ready() for result in self.results)

    def completed_count(self) -> int:
        """How many tasks returned."""
        return sum(int(result.successful()) for result in self.results)

    def _failed_join_report(self) -> Iterator[Any]:
        return (
            each
            for each in self.results
            if each.backend.is_cached(each.id) and each.state in states.PROPAGATE_STATES
        )

    # -- acting ------------------------------------------------------------------------------

    def forget(self) -> None:
        """Delete the results."""
        for result in self.results:
            result.forget()

    def revoke(
        self,
        connection: Any = None,
        terminate: bool = False,
        signal: Any = None,
        wait: bool = False,
        timeout: float | None = None,
    ) -> None:
        """Take the tasks out; see `AsyncResult.revoke`."""
        ids = [leaf.id for leaf in _leaves(self)]
        with properly_configured():
            revoke(self.app, ids, terminate=terminate)

    def then(self, callback: Callable[..., Any], on_error: Any = None, weak: bool = False) -> Any:
        """Call ``callback(result)`` once every task is finished and this program has seen it."""
        return self.on_ready.then(callback, on_error)

    def _on_ready(self) -> None:
        if self.backend.is_async:
            self.on_ready()

    # -- waiting -----------------------------------------------------------------------------

    def get(
        self,
        timeout: float | None = None,
        propagate: bool = True,
        interval: float = 0.5,
        callback: Callable[..., Any] | None = None,
        no_ack: bool = True,
        on_message: Callable[..., Any] | None = None,
        disable_sync_subtasks: bool = True,
        on_interval: Callable[[], Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Wait for what every task returns; see `join`."""
        join = self.join_native if self.supports_native_join else self.join
        return join(
            timeout=timeout,
            propagate=propagate,
            interval=interval,
            callback=callback,
            no_ack=no_ack,
            on_message=on_message,
            disable_sync_subtasks=disable_sync_subtasks,
            on_interval=on_interval,
        )

    def join(
        self,
        timeout: float | None = None,
        propagate: bool = True,
        interval: float = 0.5,
        callback: Callable[..., Any] | None = None,
        no_ack: bool = True,
        on_message: Callable[..., Any] | None = None,
        disable_sync_subtasks: bool = True,
        on_interval: Callable[[], Any] | None = None,
    ) -> Any:
        """Wait for the results one after the other; gives them as a list, or one by one to
        ``callback(id, value)``.

        Raises the first error on the way, unless ``propagate`` is off; `TimeoutError` after
        ``timeout`` seconds; ``RuntimeError`` inside a task (see `allow_join_result`).
        """
        if disable_sync_subtasks:
            assert_will_not_block()
        if on_message is not None:
            raise ImproperlyConfigured("Backend does not support on_message callback")
        deadline = None if timeout is None else time.monotonic() + timeout
        values = []
        for result in self.results:
            left = None
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0 and timeout:
                    raise TimeoutError("join operation timed out")
                left = max(0.0, left)
            value = result.get(
                timeout=left,
                propagate=propagate,
                interval=interval,
                no_ack=no_ack,
                on_interval=on_interval,
                disable_sync_subtasks=disable_sync_subtasks,
            )
            if callback is None:
                values.append(value)
            else:
                callback(result.id, value)
        return values

    def _iter_meta(self, **kwargs: Any) -> Iterator[dict[str, Any]]:
        ids = {each.id for each in self.results}
        return (meta for _, meta in self.backend.get_many(ids, max_iterations=1, **kwargs))

    def iter_native(
        self,
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_message: Callable[..., Any] | None = None,
        on_interval: Callable[[], Any] | None = None,
    ) -> Iterator[tuple[Any, Any]]:
        """Ids and records of the tasks, as they end."""
        self._on_full.finalize()
        found: Iterator[tuple[Any, Any]] = self.backend.iter_native(
            self,
            timeout=timeout,
            interval=interval,
            no_ack=no_ack,
            on_message=on_message,
            on_interval=on_interval,
        )
        return found

    def join_native(
        self,
        timeout: float | None = None,
        propagate: bool = True,
        interval: float = 0.5,
        callback: Callable[..., Any] | None = None,
        no_ack: bool = True,
        on_message: Callable[..., Any] | None = None,
        on_interval: Callable[[], Any] | None = None,
        disable_sync_subtasks: bool = True,
    ) -> Any:
        """`join`, with all results asked for at once: an error is raised when it occurs."""
        if disable_sync_subtasks:
            assert_will_not_block()
        places: dict[Any, list[int]] = {}
        for place, result in enumerate(self.results):
            places.setdefault(result.id, []).append(place)
        values: list[Any] = [None] * len(self.results)
        waited = self.iter_native(timeout, interval, no_ack, on_message, on_interval)
        for task_id, meta in waited:
            if isinstance(meta, list):  # the results of a group among these
                nested = self.results[places[task_id][0]]
                value = nested.get(
                    timeout=timeout,
                    propagate=propagate,
                    interval=interval,
                    disable_sync_subtasks=disable_sync_subtasks,
                )
            else:
                value = meta["result"]
                if propagate and meta["status"] in states.PROPAGATE_STATES:
                    raise value if isinstance(value, BaseException) else Exception(value)
            if callback is not None:
                callback(task_id, value)
                continue
            for place in places[task_id]:
                values[place] = value
        return None if callback is not None else values

    # -- what it is bound to -----------------------------------------------------------------

    @property
    def app(self) -> Any:
        if self._app is None:
            self._app = self.results[0].app if self.results else current_app._get_current_object()
        return self._app

    @app.setter
    def app(self, app: Any) -> None:
        self._app = app

    @property
    def backend(self) -> Any:
        return self.app.backend

    @property
    def supports_native_join(self) -> Any:
        """Whether all can be asked for at once; ``None`` if there are none."""
        return self.results[0].supports_native_join if self.results else None

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ResultSet):
            return bool(other.results == self.results)
        return NotImplemented

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        ids = ", ".join(str(each.id) for each in self.results)
        return f"<{type(self).__name__}: [{ids}]>"


class GroupResult(ResultSet):
    """The results of a group. ``id`` is the group's."""

    id: Any = None

    def __init__(
        self,
        id: str | None = None,
        results: Iterable[Any] | None = None,
        parent: Any = None,
        **kwargs: Any,
    ) -> None:
        self.id = id
        self.parent = parent
        super().__init__([] if results is None else results, **kwargs)

    def _on_ready(self) -> None:
        self.backend.remove_pending_result(self)
        super()._on_ready()

    @property
    def children(self) -> Any:
        """The results."""
        return self.results

    # -- saving ------------------------------------------------------------------------------

    def save(self, backend: Any = None) -> Any:
        """Write the ids down, for `restore`: nobody else remembers which tasks are a group."""
        return (backend or self.app.backend).save_group(self.id, self)

    def delete(self, backend: Any = None) -> None:
        """Forget what `save` wrote."""
        (backend or self.app.backend).delete_group(self.id)

    @classmethod
    def restore(cls, id: str, backend: Any = None, app: Any = None) -> Any:
        """A group that was saved; ``None`` if it was not."""
        bound: Any = cls.app  # of the class that an app makes for itself
        app = app or (current_app if isinstance(bound, property) else bound)
        return (backend or app.backend).restore_group(id)

    # -- as a value --------------------------------------------------------------------------

    def as_tuple(self) -> tuple[Any, Any]:
        """A form that can be stored: see `result_from_tuple`."""
        parent = self.parent
        return (self.id, parent and parent.as_tuple()), [each.as_tuple() for each in self.results]

    def __bool__(self) -> bool:
        return bool(self.id or self.results)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, GroupResult):
            return bool(
                other.id == self.id
                and other.results == self.results
                and other.parent == self.parent
            )
        if isinstance(other, str):
            return bool(other == self.id)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        ids = ", ".join(str(each.id) for each in self.results)
        return f"<{type(self).__name__}: {self.id} [{ids}]>"

    def __str__(self) -> str:
        return str(self.id)

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle_group, (self.id, self.results, self.parent)


Thenable.register(AsyncResult)
Thenable.register(ResultSet)


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


def _leaves(result: Any) -> Iterator[Any]:
    if isinstance(result, ResultSet):
        for each in result.results:
            yield from _leaves(each)
    else:
        yield result


def _unpickle_result(id: str, task_name: str | None, parent: Any) -> AsyncResult:
    return AsyncResult(id, task_name=task_name, parent=parent)


def _unpickle_group(id: str, results: Any, parent: Any) -> GroupResult:
    return GroupResult(id, results, parent=parent)
