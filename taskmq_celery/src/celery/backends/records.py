"""Records of tasks and of groups: what one consists of, how it is written and read, and how that is
tried again."""

from __future__ import annotations

import sys
import traceback as tracebacks
from collections.abc import Callable
from functools import partial
from typing import Any

from billiard.einfo import ExceptionInfo
from kombu.utils.encoding import ensure_bytes

from celery import states
from celery._state import get_current_task
from celery.exceptions import BackendGetMetaError, BackendStoreError, TaskRevokedError
from celery.utils.log import get_logger
from celery.utils.time import get_exponential_backoff_interval

from .payloads import Payloads

__all__ = ("Records",)

logger = get_logger("celery.backends.base")


def _is_request_ignore_result(request: Any) -> bool:
    return bool(getattr(request, "ignore_result", False))


class Records(Payloads):
    """Writes and reads records. A subclass stores them: ``_store_result``, ``_get_task_meta_for``,
    ``_forget``, ``_save_group``, ``_restore_group``, ``_delete_group``.

    A record that says ``SUCCESS`` is final: no later one takes its place.
    """

    always_retry: bool
    max_retries: float
    base_sleep_between_retries_ms: int
    max_sleep_between_retries_ms: int
    _cache: Any
    _ensure_not_eager: Callable[[], None]
    _call_task_errbacks: Callable[..., None]
    _fail_chain: Callable[..., None]
    on_chord_part_return: Callable[..., Any]

    # -- writing -----------------------------------------------------------------------------

    def mark_as_started(self, task_id: str, **meta: Any) -> Any:
        """The task runs."""
        return self.store_result(task_id, meta, states.STARTED)

    def mark_as_done(
        self,
        task_id: str,
        result: Any,
        request: Any = None,
        store_result: bool = True,
        state: str = states.SUCCESS,
    ) -> None:
        """The task returned ``result``."""
        if store_result and not _is_request_ignore_result(request):
            self.store_result(task_id, result, state, request=request)
        if request and request.chord:
            self.on_chord_part_return(request, state, result)

    def mark_as_failure(
        self,
        task_id: str,
        exc: BaseException,
        traceback: Any = None,
        request: Any = None,
        store_result: bool = True,
        call_errbacks: bool = True,
        state: str = states.FAILURE,
    ) -> None:
        """The task raised ``exc``; so fails what was to run after it."""
        if store_result:
            self.store_result(task_id, exc, state, traceback=traceback, request=request)
        if not request:
            return
        if request.chord:
            self.on_chord_part_return(request, state, exc)
        if isinstance(request.chain, (list, tuple)):
            self._fail_chain(request.chain, exc, traceback, store_result, state)
        if call_errbacks and request.errbacks:
            self._call_task_errbacks(request, exc, traceback)

    def mark_as_revoked(
        self,
        task_id: str,
        reason: str = "",
        request: Any = None,
        store_result: bool = True,
        state: str = states.REVOKED,
    ) -> None:
        """The task was taken out."""
        exc = TaskRevokedError(reason)
        if store_result:
            self.store_result(task_id, exc, state, traceback=None, request=request)
        if request and request.chord:
            self.on_chord_part_return(request, state, exc)

    def mark_as_retry(
        self,
        task_id: str,
        exc: BaseException,
        traceback: Any = None,
        request: Any = None,
        store_result: bool = True,
        state: str = states.RETRY,
    ) -> Any:
        """The task will run again."""
        if not store_result:
            return None
        return self.store_result(task_id, exc, state, traceback=traceback, request=request)

    def fail_from_current_stack(self, task_id: str, exc: Any = None) -> ExceptionInfo:
        """The task failed by the exception that is being handled, or by ``exc``."""
        kind, handled, trace = sys.exc_info()
        try:
            failure: Any = handled if exc is None else exc
            einfo = ExceptionInfo((kind, failure, trace))
            self.mark_as_failure(task_id, failure, einfo.traceback)
            return einfo
        finally:
            if trace is not None:
                tracebacks.clear_frames(trace)
            del trace

    def store_result(
        self,
        task_id: str,
        result: Any,
        state: str | None,
        traceback: Any = None,
        request: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Write the record of a task. Raises `BackendStoreError` where retries were in vain."""
        result = self.encode_result(result, state)
        error = partial(
            BackendStoreError, "failed to store result on the backend", task_id=task_id, state=state
        )
        write = partial(
            self._store_result, task_id, result, state, traceback, request=request, **kwargs
        )
        stored = self._with_retries(write, error)
        return result if stored is None else stored

    def _store_result(
        self,
        task_id: str,
        result: Any,
        state: str | None,
        traceback: Any = None,
        request: Any = None,
        **kwargs: Any,
    ) -> Any:
        raise NotImplementedError("backend does not implement store_result.")

    def _get_result_meta(
        self,
        result: Any,
        state: str | None,
        traceback: Any,
        request: Any,
        format_date: bool = True,
        encode: bool = False,
    ) -> dict[str, Any]:
        """The fields of a record. ``encode`` makes payloads of its arguments."""
        done: Any = None
        if state in self.READY_STATES:
            done = self.app.now()
            done = done.isoformat() if format_date else done
        meta = {
            "status": state,
            "result": result,
            "traceback": traceback,
            "children": self.current_task_children(request),
            "date_done": done,
        }
        if request and getattr(request, "group", None):
            meta["group_id"] = request.group
        if request and getattr(request, "parent_id", None):
            meta["parent_id"] = request.parent_id
        if request and self.app.conf.get("result_extended", False):
            meta.update(self._extended_meta(request, encode))
        return meta

    def _extended_meta(self, request: Any, encode: bool) -> dict[str, Any]:
        args, kwargs = getattr(request, "args", None), getattr(request, "kwargs", None)
        if encode:
            args, kwargs = ensure_bytes(self.encode(args)), ensure_bytes(self.encode(kwargs))
        info = getattr(request, "delivery_info", None)
        meta = {
            "name": getattr(request, "task", None),
            "args": args,
            "kwargs": kwargs,
            "worker": getattr(request, "hostname", None),
            "retries": getattr(request, "retries", None),
            "queue": info.get("routing_key") if info else None,
        }
        stamps, declared = (getattr(request, each, None) for each in ("stamps", "stamped_headers"))
        if stamps and declared:
            meta["stamped_headers"] = declared
            meta.update({name: stamps[name] for name in declared if name in stamps})
        return meta

    def current_task_children(self, request: Any = None) -> list[Any] | None:
        """Results of the tasks that the task called, as tuples; ``None`` outside a task."""
        request = request or getattr(get_current_task(), "request", None)
        if not request:
            return None
        return [child.as_tuple() for child in getattr(request, "children", None) or []]

    # -- trying again ------------------------------------------------------------------------

    def exception_safe_to_retry(self, exc: BaseException) -> bool:
        """Whether what failed with ``exc`` may be tried again; for subclasses."""
        return False

    def on_backend_retryable_error(self, exc: BaseException) -> None:
        """Called before something is tried again; for subclasses."""

    def _sleep(self, amount: float) -> None:
        raise NotImplementedError

    def _with_retries(self, call: Callable[[], Any], failed: Callable[[], Exception]) -> Any:
        """``call()``, again and again where ``result_backend_always_retry`` says so."""
        retries = 0
        while True:
            try:
                return call()
            except Exception as exc:
                if not self.always_retry or not self.exception_safe_to_retry(exc):
                    raise
                if retries >= self.max_retries:
                    raise failed() from exc
                retries += 1
                self._before_retry(exc, retries)

    def _before_retry(self, exc: Exception, retries: int) -> None:
        try:
            self.on_backend_retryable_error(exc)
        except Exception:
            logger.exception("on_backend_retryable_error of %s failed", type(self).__name__)
        pause = get_exponential_backoff_interval(
            self.base_sleep_between_retries_ms, retries, self.max_sleep_between_retries_ms, True
        )
        self._sleep(pause / 1000)

    # -- reading -----------------------------------------------------------------------------

    def get_task_meta(self, task_id: str, cache: bool = True) -> dict[str, Any]:
        """The record of a task: status, result, traceback and so on.

        Raises `BackendGetMetaError` where retries were in vain.
        """
        self._ensure_not_eager()
        if cache and task_id in self._cache:
            cached: dict[str, Any] = self._cache[task_id]
            return cached
        error = partial(BackendGetMetaError, "failed to get meta", task_id=task_id)
        meta: dict[str, Any] = self._with_retries(partial(self._get_task_meta_for, task_id), error)
        if cache and meta.get("status") == states.SUCCESS:
            self._cache[task_id] = meta
        return meta

    def _get_task_meta_for(self, task_id: str) -> dict[str, Any]:
        raise NotImplementedError("backend does not implement get_task_meta.")

    def get_state(self, task_id: str) -> Any:
        """The state of a task; ``PENDING`` for one that nobody knows."""
        return self.get_task_meta(task_id)["status"]

    get_status = get_state

    def get_result(self, task_id: str) -> Any:
        """What a task returned, or the exception it ended with."""
        return self.get_task_meta(task_id).get("result")

    def get_traceback(self, task_id: str) -> Any:
        """The traceback of a task that failed, as text."""
        return self.get_task_meta(task_id).get("traceback")

    def get_children(self, task_id: str) -> Any:
        """Results of the tasks that a task called, as they are stored."""
        return self.get_task_meta(task_id).get("children")

    def task_result_exists(self, task_id: str) -> bool:
        """Whether there is a record of the task."""
        meta: dict[str, Any] = self._get_task_meta_for(task_id)
        return bool(meta["status"] != states.PENDING)

    def is_cached(self, task_id: str) -> bool:
        """Whether the record of a task is in the cache."""
        return task_id in self._cache

    def reload_task_result(self, task_id: str) -> None:
        """Read a record again, whatever is in the cache."""
        self._cache[task_id] = self.get_task_meta(task_id, cache=False)

    def reload_group_result(self, group_id: str) -> None:
        """Read a group again, whatever is in the cache."""
        self._cache[group_id] = self.get_group_meta(group_id, cache=False)

    def forget(self, task_id: str) -> None:
        """Delete the record of a task."""
        self._cache.pop(task_id, None)
        self._forget(task_id)

    def _forget(self, task_id: str) -> Any:
        raise NotImplementedError("backend does not implement forget.")

    # -- groups ------------------------------------------------------------------------------

    def get_group_meta(self, group_id: str, cache: bool = True) -> Any:
        """The record of a group that was saved; ``None`` for none."""
        self._ensure_not_eager()
        if cache and group_id in self._cache:
            return self._cache[group_id]
        meta = self._restore_group(group_id)
        if cache and meta is not None:
            self._cache[group_id] = meta
        return meta

    def restore_group(self, group_id: str, cache: bool = True) -> Any:
        """A group that was saved; ``None`` for none."""
        meta = self.get_group_meta(group_id, cache=cache)
        return meta["result"] if meta else None

    def save_group(self, group_id: str, result: Any) -> Any:
        """Save a group, for `restore_group`."""
        return self._save_group(group_id, result)

    def delete_group(self, group_id: str) -> Any:
        """Forget that a group was saved."""
        self._cache.pop(group_id, None)
        return self._delete_group(group_id)

    def _save_group(self, group_id: str, result: Any) -> Any:
        raise NotImplementedError("backend does not implement save_group.")

    def _restore_group(self, group_id: str) -> Any:
        raise NotImplementedError("backend does not implement restore_group.")

    def _delete_group(self, group_id: str) -> Any:
        raise NotImplementedError("backend does not implement delete_group.")
