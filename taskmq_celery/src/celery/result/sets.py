"""Several results as one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import proxy

from vine import barrier, promise

from celery import states
from celery._state import current_app
from celery.exceptions import ImproperlyConfigured, TimeoutError

from .blocking import assert_will_not_block
from .relatives import ResultBase

__all__ = ("GroupResult", "ResultSet")


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
        self._on_full = ready_barrier or _barrier_of(self.results)
        if self._on_full:
            self._on_full.then(promise(self._on_ready, weak=True))

    # -- as a set ----------------------------------------------------------------------------

    def add(self, result: Any) -> None:
        """Add a result, unless it is there."""
        if result not in self.results:
            self.results.append(result)
            if self._on_full.ready:
                self._on_full = _barrier_of(self.results)
                self.on_ready = promise(args=(proxy(self),))
                self._on_full.then(promise(self._on_ready, weak=True))
            else:
                self._on_full.add(_promise_of(result))

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
        self.app.control.revoke(
            [leaf.id for leaf in _leaves(self)],
            connection=connection,
            terminate=terminate,
            signal=signal,
            reply=wait,
            timeout=timeout,
        )

    def then(self, callback: Callable[..., Any], on_error: Any = None, weak: bool = False) -> Any:
        """Call ``callback(result)`` once every task is finished and this program has seen it."""
        for each in _leaves(self):
            if each._cache is None:
                each.backend.add_pending_result(each, weak=weak)
        return self.on_ready.then(callback, on_error)

    def _on_ready(self) -> None:
        backend = self.backend
        if backend is None or backend.is_async:  # tasks that ran here have none
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
        if not self._on_full.finalized:
            self._on_full.finalized = True
            _look(self._on_full)
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
                value = nested.join(
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
        return self.results[0].backend if self.app is None else self.app.backend

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
        if self.backend is not None:
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

    def __reduce_args__(self) -> tuple[Any, ...]:
        """Its id and its members."""
        return self.id, self.results


def _barrier_of(results: list[Any]) -> Any:
    """What is full when all results are there. Nobody waits for them yet."""
    made = barrier([_promise_of(each) for each in results])
    if results:
        _look(made)
    return made


def _look(waiting: Any) -> None:
    """Let a barrier find out whether all that it waits for is there already: one part more, that is
    ready, makes it look. (Its own ``finalize`` does so again for every call from a callback.)"""
    waiting.size += 1
    waiting()


def _promise_of(result: Any) -> Any:
    return getattr(result, "on_ready", result)


def _leaves(result: Any) -> Iterator[Any]:
    if isinstance(result, ResultSet):
        for each in result.results:
            yield from _leaves(each)
    else:
        yield result


def _unpickle_group(id: str, results: Any, parent: Any) -> GroupResult:
    return GroupResult(id, results, parent=parent)
