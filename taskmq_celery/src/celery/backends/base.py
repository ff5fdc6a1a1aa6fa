"""What a result backend is: the classes that other backends derive from.

`Backend` encodes, decodes and says what a record consists of; a subclass stores it, by
``_store_result`` and ``_get_task_meta_for`` (and ``_forget``, ``_save_group``, ``_restore_group``,
``_delete_group``). `KeyValueStoreBackend` needs no more than ``get``, ``set``, ``mget`` and
``delete``. Hooks get their arguments by position: subclasses name them as they like.

A record that says ``SUCCESS`` is final: no later one takes its place.

One file, because programs patch names here (``group``, ``time``, ``maybe_signature``) and expect
every method to see it.
"""

from __future__ import annotations

import sys
import time
import traceback as tracebacks
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, ClassVar, NamedTuple, NoReturn

from billiard.einfo import ExceptionInfo
from kombu.compression import get_encoder as get_compression_encoder
from kombu.serialization import dumps, loads, prepare_accept_content
from kombu.serialization import registry as serializer_registry
from kombu.utils.encoding import bytes_to_str, ensure_bytes
from kombu.utils.functional import LRUCache, maybe_list
from kombu.utils.url import maybe_sanitize_url
from kombu.utils.uuid import uuid

from celery import states
from celery._state import get_current_task
from celery.app.context import Context
from celery.canvas import group, maybe_signature
from celery.exceptions import (
    BackendGetMetaError,
    BackendStoreError,
    ChordError,
    ImproperlyConfigured,
    NotRegistered,
    TaskRevokedError,
    TimeoutError,
)
from celery.result import (
    AsyncResult,
    GroupResult,
    ResultBase,
    ResultSet,
    allow_join_result,
    result_from_tuple,
)
from celery.utils.collections import BufferMap
from celery.utils.log import get_logger
from celery.utils.time import get_exponential_backoff_interval
from taskmq_celery.results import are_known, wait_many

from .arity import takes_new_style
from .encoding import (
    COMPRESSED_PAYLOAD_MAGIC,
    compress_payload,
    decompress_payload,
    exception_as_data,
    exception_from_data,
)

__all__ = (
    "COMPRESSED_PAYLOAD_MAGIC",
    "Backend",
    "BaseBackend",
    "BaseDictBackend",
    "BaseKeyValueStoreBackend",
    "DisabledBackend",
    "GroupResult",
    "KeyValueStoreBackend",
    "SyncBackendMixin",
    "allow_join_result",
    "compress_payload",
    "decompress_payload",
    "get_current_task",
)

logger = get_logger(__name__)

MESSAGE_BUFFER_MAX = 8192

NO_BACKEND = """
No result backend is configured.
Please see the documentation for more information.
(Set result_backend, or the environment variable CELERY_RESULT_BACKEND, to 'rpc://'.)
""".strip()

NO_CHORDS = """
Starting chords requires a result backend to be configured.

Note that a group chained with a task is also upgraded to be a chord,
as this pattern requires synchronization.

Result backends that supports chords: Redis, Database, Memcached, and more.
""".strip()

EAGER = (
    "Results are not stored in backend and should not be retrieved when task_always_eager is "
    "enabled, unless task_store_eager_result is enabled."
)


class pending_results_t(NamedTuple):  # noqa: N801  # Celery's name
    """The results that somebody waits for, by task id: those that are held, those that are not."""

    concrete: Any
    weak: Any


class _nulldict(dict):  # type: ignore[type-arg]  # noqa: N801  # Celery's name
    """Keeps nothing: the cache of a backend that has none."""

    def _ignore(self, *args: Any, **kwargs: Any) -> None:
        """Nothing is kept."""

    __setitem__ = update = setdefault = _ignore


def unpickle_backend(cls: Any, args: Any, kwargs: Any) -> Any:
    """A backend again, of whatever app is the current one."""
    from celery._state import current_app

    return cls(*args, app=current_app._get_current_object(), **kwargs)


def _create_chord_error_with_cause(
    message: Any, original_exc: Any = None, *, cause: Any = None
) -> ChordError:
    error = ChordError(message)
    origin = original_exc if cause is None else cause
    if isinstance(origin, BaseException):
        error.__cause__ = origin
    return error


def _create_fake_task_request(
    task_id: str, errbacks: Any = None, task_name: str = "unknown", **extra: Any
) -> Context:
    """The request of a task that never ran, for its error callbacks."""
    fields: dict[str, Any] = {
        "id": task_id,
        "errbacks": errbacks or [],
        "task": task_name,
        "delivery_info": {},
    }
    return Context({**fields, **extra})


def _is_request_ignore_result(request: Any) -> bool:
    return bool(getattr(request, "ignore_result", False))


class Backend:
    """Base of result backends."""

    READY_STATES = states.READY_STATES
    UNREADY_STATES = states.UNREADY_STATES
    EXCEPTION_STATES = states.EXCEPTION_STATES

    TimeoutError = TimeoutError

    subpolling_interval: float | None = None
    """Seconds between two looks while somebody waits; ``None`` leaves it to the caller."""
    supports_native_join = False
    """Whether many results can be waited for at once."""
    supports_autoexpire = False
    """Whether records vanish by themselves; otherwise somebody has to call `cleanup`."""
    supports_result_compression = False
    supports_failure_expires = False
    persistent = True
    written_by_worker = True
    """Whether workers write records through this class."""
    asks_engine = True
    """Whether the engine's records are beside those that this class reads."""

    retry_policy: ClassVar[Any] = {
        "max_retries": 20,
        "interval_start": 0,
        "interval_step": 1,
        "interval_max": 1,
    }

    def __init__(
        self,
        app: Any,
        serializer: str | None = None,
        max_cached_results: int | None = None,
        accept: Iterable[str] | None = None,
        expires: Any = None,
        expires_type: Any = None,
        url: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.app = app
        conf = app.conf
        self.serializer = serializer or conf.result_serializer
        self.content_type, self.content_encoding, self.encoder = serializer_registry._encoders[
            self.serializer
        ]
        size = max_cached_results or conf.result_cache_max
        self._cache: Any = _nulldict() if size == -1 else LRUCache(limit=size)
        self.expires = self.prepare_expires(expires, expires_type)
        wanted = accept if accept is not None else conf.result_accept_content
        self.accept = prepare_accept_content(conf.accept_content if wanted is None else wanted)
        self.always_retry = conf.get("result_backend_always_retry", False)
        self.max_sleep_between_retries_ms = conf.get(
            "result_backend_max_sleep_between_retries_ms", 10000
        )
        self.base_sleep_between_retries_ms = conf.get(
            "result_backend_base_sleep_between_retries_ms", 10
        )
        self.max_retries = conf.get("result_backend_max_retries", float("inf"))
        self.thread_safe = conf.get("result_backend_thread_safe", False)
        self.compression = self.prepare_compression(conf.get("result_compression", None))
        if conf.get("result_failure_expires", None) is not None:
            self._tell_of_failure_expires()
        self._pending_results = pending_results_t({}, {})
        self._pending_messages = BufferMap(MESSAGE_BUFFER_MAX)
        self.url = url

    def _tell_of_failure_expires(self) -> None:
        if not self.supports_failure_expires:
            warnings.warn(
                f"{type(self).__name__} does not support result_failure_expires: failures are "
                "kept as long as any result",
                stacklevel=4,
            )

    def as_uri(self, include_password: bool = False) -> str:
        """The URL that the backend was configured with, ``**`` in place of a password."""
        url: str = self.url or ""
        if not include_password:
            url = maybe_sanitize_url(url)
        return url.removesuffix("/") if url.endswith(":///") else url

    # -- what is configured ------------------------------------------------------------------

    def prepare_expires(self, value: Any, type: Any = None) -> Any:
        """Seconds for which a record is kept; as configured where ``value`` is ``None``."""
        if value is None:
            value = self.app.conf.result_expires
        if isinstance(value, timedelta):
            value = value.total_seconds()
        return type(value) if type and value is not None else value

    def prepare_persistent(self, enabled: bool | None = None) -> bool:
        """Whether records outlive their server."""
        if enabled is not None:
            return enabled
        configured = self.app.conf.result_persistent
        return self.persistent if configured is None else configured

    def prepare_compression(self, compression: str | None) -> str | None:
        """The compression to use, ``None`` where this backend cannot store bytes."""
        if not compression:
            return None
        if not self.supports_result_compression:
            warnings.warn(
                f"{type(self).__name__} cannot store compressed payloads: result_compression "
                "is ignored",
                stacklevel=3,
            )
            return None
        try:
            get_compression_encoder(compression)
        except KeyError:
            raise ImproperlyConfigured(f"Unknown compression method: {compression!r}") from None
        return compression

    def _ensure_not_eager(self) -> None:
        conf = self.app.conf
        if conf.task_always_eager and not conf.task_store_eager_result:
            warnings.warn(RuntimeWarning(EAGER), stacklevel=3)

    # -- encoding ----------------------------------------------------------------------------

    def _encode(self, data: Any) -> Any:
        return dumps(data, serializer=self.serializer)

    def encode(self, data: Any) -> Any:
        """Data as a payload, text or bytes."""
        payload = self._encode(data)[2]
        return compress_payload(payload, self.compression) if self.compression else payload

    def decode(self, payload: Any) -> Any:
        """The data behind a payload. Raises for a serializer that is not accepted."""
        if payload is None:
            return payload
        return loads(
            decompress_payload(payload) or str(payload),
            content_type=self.content_type,
            content_encoding=self.content_encoding,
            accept=self.accept,
        )

    def encode_result(self, result: Any, state: str | None) -> Any:
        """A value or an exception as what is stored of it."""
        if state in self.EXCEPTION_STATES and isinstance(result, BaseException):
            return self.prepare_exception(result)
        return self.prepare_value(result)

    def prepare_value(self, result: Any) -> Any:
        """A value as what is stored of it: results of tasks as tuples."""
        if self.serializer != "pickle" and isinstance(result, ResultBase):
            return result.as_tuple()  # type: ignore[attr-defined]  # all results have it
        return result

    def prepare_exception(self, exc: BaseException, serializer: str | None = None) -> Any:
        """An exception as what is stored of it."""
        return exception_as_data(exc, serializer or self.serializer, self.encode)

    def exception_to_python(self, exc: Any) -> Any:
        """The exception behind what is stored of it. What names anything but an exception class
        is a `SecurityError`; nothing is called then."""
        return exception_from_data(exc, self.serializer, __name__)

    def meta_from_decoded(self, meta: dict[str, Any]) -> dict[str, Any]:
        """A record with its exception made one."""
        if meta["status"] in self.EXCEPTION_STATES:
            meta["result"] = self.exception_to_python(meta["result"])
        return meta

    def decode_result(self, payload: Any) -> dict[str, Any]:
        """The record behind a payload."""
        return self.meta_from_decoded(self.decode(payload))

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
        time.sleep(amount)

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

    # -- told by the worker ------------------------------------------------------------------

    def cleanup(self) -> Any:
        """Delete what is past its time, where that does not happen by itself."""

    def process_cleanup(self) -> Any:
        """After a task ran."""

    def on_task_call(self, producer: Any, task_id: str) -> Any:
        """Before a task is sent."""
        return {}

    def close(self) -> None:
        """The app is closed: release connections. They are opened again when they are needed."""

    # -- errors of tasks ---------------------------------------------------------------------

    def _call_task_errbacks(self, request: Any, exc: BaseException, traceback: Any) -> None:
        """Call the error callbacks of a task: those that take the exception here and now, the
        others, which take the task's id, as tasks."""
        old = []
        for each in maybe_list(request.errbacks) or []:
            errback = maybe_signature(each, app=self.app)
            if not self._takes_exception(errback):
                old.append(errback)
                continue
            try:
                errback(request, exc, traceback)
            except Exception:
                logger.exception("Error callback %s of task %s failed", errback.task, request.id)
        if not old:
            return
        info = request.delivery_info
        eager = isinstance(info, Mapping) and info.get("is_eager", False)
        behind = group(old, app=self.app)
        start = behind.apply if self.app.conf.task_always_eager or eager else behind.apply_async
        start((request.id,), parent_id=request.id, root_id=request.root_id or request.id)

    def _takes_exception(self, errback: Any) -> bool:
        try:
            task = self.app.tasks[errback.task]
        except (NotRegistered, KeyError):
            return False
        return takes_new_style(task.run, errback.args or (), errback.kwargs or {}, errback)

    def _fail_chain(
        self,
        chain: Any,
        exc: BaseException,
        traceback: Any = None,
        store_result: bool = True,
        state: str = states.FAILURE,
    ) -> None:
        """Let the tasks that were to follow fail with the one before them."""
        for each in chain or ():
            following = maybe_signature(each, app=self.app)
            if following.get("subtask_type") == "chord":
                following = following["kwargs"].get("body")
                if following is None:
                    continue
                following = maybe_signature(following, app=self.app)
            options = following.get("options") or {}
            task_id = options.get("task_id")
            if task_id is None:
                continue
            is_part = bool(options.get("chord"))
            ended = is_part and self.get_state(task_id) in self.READY_STATES
            if store_result:
                self.store_result(task_id, exc, state, traceback=traceback)
            if is_part and not ended:
                request = _create_fake_task_request(
                    task_id,
                    task_name=following.get("task"),
                    chord=options["chord"],
                    group=options.get("group_id"),
                    group_index=options.get("group_index"),
                )
                self.on_chord_part_return(request, state, exc)

    def chord_error_from_stack(self, callback: Any, exc: Any = None) -> Any:
        """Let the body of a chord fail, since a part of it did."""
        failure: Any = sys.exc_info()[1] if exc is None else exc
        try:
            backend = self.app._tasks[callback.task].backend
        except (NotRegistered, KeyError):
            backend = self
        chain = callback.options.get("chain")
        if isinstance(callback, group):
            answer = self._handle_group_chord_error(
                group_callback=callback, backend=backend, exc=failure
            )
        else:
            if callback.id is None:
                callback.options["task_id"] = callback.id = uuid()
            request = Context({**callback, "id": callback.id, "delivery_info": {}})
            request.errbacks = callback.options.get("link_error") or []
            try:
                self._call_task_errbacks(request, failure, None)
            except Exception as error:
                failure = error
            answer = backend.fail_from_current_stack(callback.id, exc=failure)
        if isinstance(chain, (list, tuple)):
            self._fail_chain(chain, failure)
        return answer

    def _handle_group_chord_error(self, group_callback: Any, backend: Any, exc: Any = None) -> Any:
        """Let every task of a group fail that was the body of a chord."""
        failure = getattr(exc, "__cause__", None) or exc
        try:
            frozen = group_callback.freeze()
            of_group = maybe_list(group_callback.options.get("link_error")) or []
            own = {
                one.options.get("task_id"): maybe_list(one.options.get("link_error")) or []
                for one in group_callback.tasks
                if one.get("subtask_type") != "chord"
            }
            for result in frozen.results:
                mine = own.get(result.id, [])
                errbacks = [*mine, *(each for each in of_group if each not in mine)]
                self._fail_member(backend, result, errbacks, failure)
            backend.mark_as_failure(frozen.id, failure)
            frozen.revoke()
            return None
        except Exception as error:
            logger.exception("Failed to handle the error of a chord whose body is a group")
            return backend.fail_from_current_stack(group_callback.id, exc=error)

    def _fail_member(self, backend: Any, result: Any, errbacks: list[Any], exc: Any) -> None:
        try:
            name = getattr(result, "task", None) or "unknown"
            backend._call_task_errbacks(
                _create_fake_task_request(result.id, errbacks, name), exc, None
            )
            backend.fail_from_current_stack(result.id, exc=exc)
        except Exception:
            logger.exception("Failed to handle chord error for task %s", result.id)

    # -- chords of other makers --------------------------------------------------------------

    def ensure_chords_allowed(self) -> None:
        """Raises ``NotImplementedError`` where chords cannot work."""

    def add_to_chord(self, chord_id: str, result: Any) -> Any:
        raise NotImplementedError("Backend does not support add_to_chord")

    def set_chord_size(self, group_id: str, chord_size: int) -> Any:
        """How many parts a chord has; for backends that count them."""

    def on_chord_part_return(self, request: Any, state: Any, result: Any, **kwargs: Any) -> Any:
        """A part of a chord has ended; for backends that count them."""

    def apply_chord(self, header_result_args: Any, body: Any, **kwargs: Any) -> Any:
        """Watch over a chord that was not applied as one workflow: by a task that looks."""
        self.ensure_chords_allowed()
        return self.fallback_chord_unlock(self.app.GroupResult(*header_result_args), body, **kwargs)

    def fallback_chord_unlock(
        self, header_result: Any, body: Any, countdown: float = 1, **kwargs: Any
    ) -> Any:
        """Send ``celery.chord_unlock``, which looks again until the parts have ended."""
        task_type = self.app._tasks.get(body.task)
        routed = {"queue": body.options.get("queue", getattr(task_type, "queue", None))}
        if routed["queue"] is None:
            routed = {**self.app.amqp.router.route(dict(body.options), body.name)}
            routed["queue"] = getattr(routed.get("queue"), "name", routed.get("queue"))
        unlock = self.app.tasks["celery.chord_unlock"]
        kwargs["result"] = [each.as_tuple() for each in header_result]
        kwargs.pop("countdown", None)
        return unlock.apply_async(
            (header_result.id, body), kwargs, countdown=countdown, queue=routed["queue"]
        )

    def __reduce__(self, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return unpickle_backend, (type(self), args, kwargs or {})


class EngineWaits:
    """Waiting for tasks that the engine runs: it wakes whoever waits, also for those that no
    worker can tell the backend of."""

    app: Any
    asks_engine = False
    READY_STATES: frozenset[str]
    get_task_meta: Callable[..., dict[str, Any]]

    def _in_engine(self, result: Any) -> bool:
        """Whether the engine knows every member of a result."""
        ids = [getattr(each, "id", None) for each in result.results]
        single = all(isinstance(each, AsyncResult) for each in result.results)
        return bool(ids) and single and self.asks_engine and are_known(self.app, ids)

    def _iter_engine(
        self,
        result: Any,
        timeout: float | None,
        interval: float,
        on_interval: Callable[[], Any] | None,
    ) -> Iterator[tuple[Any, Any]]:
        ids = [each.id for each in result.results]
        ended = wait_many(
            self.app, ids, timeout=timeout, interval=interval, on_interval=on_interval
        )
        for task_id, meta in ended:
            told = self.get_task_meta(task_id)
            yield task_id, told if told["status"] in self.READY_STATES else meta


class SyncBackendMixin(EngineWaits):
    """How results are waited for where the only way is to look again."""

    _ensure_not_eager: Callable[[], None]
    get_many: Callable[..., Iterator[Any]]

    def iter_native(
        self,
        result: Any,
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_message: Callable[..., Any] | None = None,
        on_interval: Callable[[], Any] | None = None,
    ) -> Iterator[tuple[Any, Any]]:
        """Ids and records of a result's members, as they end; groups among them at once."""
        self._ensure_not_eager()
        if on_message is None and self._in_engine(result):
            yield from self._iter_engine(result, timeout, interval, on_interval)
            return
        ids = set()
        for each in result.results:
            if isinstance(each, ResultSet):
                yield getattr(each, "id", None), each.results
            else:
                ids.add(each.id)
        if ids:
            yield from self.get_many(
                ids,
                timeout=timeout,
                interval=interval,
                no_ack=no_ack,
                on_message=on_message,
                on_interval=on_interval,
            )

    def wait_for_pending(
        self,
        result: Any,
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_message: Callable[..., Any] | None = None,
        on_interval: Callable[[], Any] | None = None,
        callback: Callable[..., Any] | None = None,
        propagate: bool = True,
    ) -> Any:
        """Wait for a result; gives its value or raises its error."""
        self._ensure_not_eager()
        if on_message is not None:
            raise ImproperlyConfigured("Backend does not support on_message callback")
        meta = self.wait_for(
            result.id, timeout=timeout, interval=interval, on_interval=on_interval, no_ack=no_ack
        )
        if not meta:
            return None
        result._maybe_set_cache(meta)
        return result.maybe_throw(propagate=propagate, callback=callback)

    def wait_for(
        self,
        task_id: str,
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_interval: Callable[[], Any] | None = None,
    ) -> dict[str, Any]:
        """Block until a task is finished; its record. Raises `TimeoutError`."""
        self._ensure_not_eager()
        waited = 0.0
        while True:
            meta = self.get_task_meta(task_id)
            if meta["status"] in self.READY_STATES:
                return meta
            if on_interval is not None:
                on_interval()
            waited += _pause(waited, timeout, interval)

    def add_pending_result(self, result: Any, weak: bool = False) -> Any:
        """Somebody will wait for this one: there is nothing to prepare."""
        return result

    def remove_pending_result(self, result: Any) -> Any:
        """Nobody waits for this one any more."""
        return result

    @property
    def is_async(self) -> bool:
        """Whether results come by themselves."""
        return False


def _pause(waited: float, timeout: float | None, interval: float) -> float:
    """Sleep until the next look, and no longer than the caller has time; how long it was."""
    left = interval if timeout is None else min(interval, timeout - waited)
    if left <= 0:
        raise TimeoutError("The operation timed out.")
    time.sleep(left)
    return left


class BaseBackend(Backend, SyncBackendMixin):
    """Base of backends that are looked at again and again."""


BaseDictBackend = BaseBackend  # its name in other distributions


class BaseKeyValueStoreBackend(Backend):
    """Base of backends that store payloads under keys."""

    key_t: Any = ensure_bytes
    """What makes a key of text: bytes, unless the subclass says ``bytes_to_str``."""
    task_keyprefix: Any = "celery-task-meta-"
    group_keyprefix: Any = "celery-taskset-meta-"
    chord_keyprefix: Any = "chord-unlock-"
    implements_incr = False
    """Whether it can count the parts of a chord."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if hasattr(self.key_t, "__func__"):
            self.key_t = self.key_t.__func__  # a function, not a method
        super().__init__(*args, **kwargs)
        self._add_global_keyprefix()
        self._encode_prefixes()
        if self.implements_incr:
            self.apply_chord = self._apply_chord_incr  # type: ignore[method-assign]  # its chords

    def _add_global_keyprefix(self) -> None:
        options = self.app.conf.get("result_backend_transport_options", None) or {}
        prefix = options.get("global_keyprefix")
        if not prefix:
            return
        if prefix[-1] not in ":_-./":
            prefix += "_"
        for name in ("task_keyprefix", "group_keyprefix", "chord_keyprefix"):
            setattr(self, name, f"{prefix}{bytes_to_str(getattr(self, name))}")

    def _encode_prefixes(self) -> None:
        for name in ("task_keyprefix", "group_keyprefix", "chord_keyprefix"):
            setattr(self, name, self.key_t(getattr(self, name)))

    # -- what a subclass does ----------------------------------------------------------------

    def get(self, key: Any) -> Any:
        """The payload under a key; ``None`` for none."""
        raise NotImplementedError("Must implement the get method.")

    def mget(self, keys: Any) -> Any:
        """The payloads under keys: a list in their order, or a dict."""
        raise NotImplementedError("Does not support get_many")

    def set(self, key: Any, value: Any) -> Any:
        """Store a payload."""
        raise NotImplementedError("Must implement the set method.")

    def _set_with_state(self, key: Any, value: Any, state: Any) -> Any:
        return self.set(key, value)

    def delete(self, key: Any) -> Any:
        """Delete a payload."""
        raise NotImplementedError("Must implement the delete method")

    def incr(self, key: Any) -> Any:
        """Count."""
        raise NotImplementedError("Does not implement incr")

    def expire(self, key: Any, value: Any) -> Any:
        """Let a key vanish after so many seconds."""
        raise NotImplementedError("Does not implement expire")

    # -- keys --------------------------------------------------------------------------------

    def get_key_for_task(self, task_id: Any, key: Any = "") -> Any:
        """The key of a task's record."""
        if not task_id:
            raise ValueError(f"task_id must not be empty. Got {task_id!r} instead.")
        return self._get_key_for(self.task_keyprefix, task_id, key)

    def get_key_for_group(self, group_id: Any, key: Any = "") -> Any:
        """The key of a group's record."""
        if not group_id:
            raise ValueError(f"group_id must not be empty. Got {group_id!r} instead.")
        return self._get_key_for(self.group_keyprefix, group_id, key)

    def get_key_for_chord(self, group_id: Any, key: Any = "") -> Any:
        """The key of what is counted of a chord."""
        if not group_id:
            raise ValueError(f"group_id must not be empty. Got {group_id!r} instead.")
        return self._get_key_for(self.chord_keyprefix, group_id, key)

    def _get_key_for(self, prefix: Any, id: Any, key: Any = "") -> Any:
        text = id if isinstance(id, (str, bytes)) else str(id)
        return prefix + self.key_t(text) + self.key_t(key)

    def _strip_prefix(self, key: Any) -> str:
        """The id in a key of a record; another key as text."""
        key = self.key_t(key)
        for prefix in (self.task_keyprefix, self.group_keyprefix):
            if key.startswith(prefix):
                key = key[len(prefix) :]
                break
        text: str = bytes_to_str(key)
        return text

    # -- records -----------------------------------------------------------------------------

    def _store_result(
        self,
        task_id: str,
        result: Any,
        state: str | None,
        traceback: Any = None,
        request: Any = None,
        **kwargs: Any,
    ) -> Any:
        meta = self._get_result_meta(result, state, traceback, request)
        meta["task_id"] = bytes_to_str(task_id)
        info = getattr(request, "delivery_info", None)
        first = isinstance(info, Mapping) and info.get("redelivered") is False
        if not first and self._get_task_meta_for(task_id)["status"] == states.SUCCESS:
            return result
        self._set_with_state(self.get_key_for_task(task_id), self.encode(meta), state)
        return result

    def _get_task_meta_for(self, task_id: str) -> dict[str, Any]:
        payload = self.get(self.get_key_for_task(task_id))
        if not payload:
            return {"status": states.PENDING, "result": None}
        return self.decode_result(payload)

    def task_result_exists(self, task_id: str) -> bool:
        return bool(self.get(self.get_key_for_task(task_id)))

    def _forget(self, task_id: str) -> Any:
        self.delete(self.get_key_for_task(task_id))

    def _save_group(self, group_id: str, result: Any) -> Any:
        self._set_with_state(
            self.get_key_for_group(group_id),
            self.encode({"result": self.prepare_value(result)}),
            states.SUCCESS,
        )
        return result

    def _delete_group(self, group_id: str) -> Any:
        self.delete(self.get_key_for_group(group_id))

    def _restore_group(self, group_id: str) -> Any:
        payload = self.get(self.get_key_for_group(group_id))
        if not payload:
            return None
        meta = self.decode(payload)
        meta["result"] = result_from_tuple(meta["result"], self.app)
        return meta

    # -- many records ------------------------------------------------------------------------

    def _filter_ready(
        self,
        values: Iterable[Any],
        READY_STATES: Any = states.READY_STATES,  # noqa: N803  # Celery's
    ) -> Iterator[tuple[Any, dict[str, Any]]]:
        for key, payload in values:
            if payload is not None:
                meta = self.decode_result(payload)
                if meta["status"] in READY_STATES:
                    yield key, meta

    def _mget_to_results(
        self,
        values: Any,
        keys: Any,
        READY_STATES: Any = states.READY_STATES,  # noqa: N803  # Celery's
    ) -> dict[str, dict[str, Any]]:
        pairs = values.items() if hasattr(values, "items") else zip(keys, values, strict=True)
        ready = self._filter_ready(pairs, READY_STATES)
        return {self._strip_prefix(key): meta for key, meta in ready}

    def get_many(
        self,
        task_ids: Iterable[str],
        timeout: float | None = None,
        interval: float = 0.5,
        no_ack: bool = True,
        on_message: Callable[..., Any] | None = None,
        on_interval: Callable[[], Any] | None = None,
        max_iterations: int | None = None,
        READY_STATES: Any = states.READY_STATES,  # noqa: N803  # Celery's
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Ids and records of tasks, as they end. Raises `TimeoutError`."""
        left = {bytes_to_str(each) for each in task_ids}
        for task_id in list(left):
            meta = self._cache.get(task_id)
            if meta is not None and meta["status"] in READY_STATES:
                left.discard(task_id)
                yield task_id, meta
        looks, waited = 0, 0.0
        while left:
            keys = [self.get_key_for_task(each) for each in left]
            found = self._mget_to_results(self.mget(keys), keys, READY_STATES)
            self._cache.update(found)
            left.difference_update(found)
            for task_id, meta in found.items():
                if on_message is not None:
                    on_message(meta)
                yield task_id, meta
            looks += 1
            if not left or (max_iterations and looks >= max_iterations):
                return
            if on_interval is not None:
                on_interval()
            waited += _pause(waited, timeout, interval)

    # -- chords of other makers --------------------------------------------------------------

    @property
    def chord_expires(self) -> Any:
        """Seconds for which what is counted of a chord is kept; 0 or ``None`` is for ever."""
        configured = self.app.conf.get("result_chord_expires", None)
        return self.expires if configured is None else self.prepare_expires(configured)

    def _apply_chord_incr(self, header_result_args: Any, body: Any, **kwargs: Any) -> Any:
        self.ensure_chords_allowed()
        self.app.GroupResult(*header_result_args).save(backend=self)

    def on_chord_part_return(self, request: Any, state: Any, result: Any, **kwargs: Any) -> Any:
        if not self.implements_incr or not request.group:
            return
        key = self.get_key_for_chord(request.group)
        callback = maybe_signature(request.chord, app=self.app)
        try:
            parts = GroupResult.restore(request.group, backend=self)
        except Exception as error:
            self._lost_chord(callback, request, error)
            return
        if parts is None:
            self._lost_chord(callback, request, None)
            return
        size = callback.get("chord_size")
        if size is None:
            size = len(parts)
        count = self.incr(key)
        if count < size:
            if self.chord_expires:
                self.expire(key, self.chord_expires)
            return
        if count > size:
            logger.warning(
                "Chord counter incremented too many times for %r", bytes_to_str(request.group)
            )
            return
        try:
            self._run_body(callback, parts)
        finally:
            parts.delete()
            self.delete(key)

    def _lost_chord(self, callback: Any, request: Any, error: Exception | None) -> None:
        reason = (
            f"Cannot restore group: {error!r}"
            if error
            else f"GroupResult {request.group} no longer exists"
        )
        self.chord_error_from_stack(callback, _create_chord_error_with_cause(reason, error))

    def _run_body(self, callback: Any, parts: Any) -> None:
        join = parts.join_native if parts.supports_native_join else parts.join
        try:
            with allow_join_result():
                values = join(timeout=self.app.conf.result_chord_join_timeout, propagate=True)
        except Exception as error:
            culprit = next(parts._failed_join_report(), None)
            reason = repr(error) if culprit is None else f"Dependency {culprit.id} raised {error!r}"
            logger.exception("Chord %r raised: %r", parts.id, error)
            self.chord_error_from_stack(callback, _create_chord_error_with_cause(reason, error))
            return
        try:
            callback.delay(values)
        except Exception as error:
            logger.exception("Chord %r raised: %r", parts.id, error)
            self.chord_error_from_stack(callback, ChordError(f"Callback error: {error!r}"))


class KeyValueStoreBackend(BaseKeyValueStoreBackend, SyncBackendMixin):
    """Base of backends that store payloads under keys, and are looked at again and again."""


class DisabledBackend(BaseBackend):
    """There is no result backend: results are not stored, and asking for one is an error."""

    written_by_worker = asks_engine = False
    _cache: Any = _nulldict()

    def store_result(self, *args: Any, **kwargs: Any) -> None:
        """Nowhere to go."""

    def ensure_chords_allowed(self) -> NoReturn:
        raise NotImplementedError(NO_CHORDS)

    def _is_disabled(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(NO_BACKEND)

    def as_uri(self, *args: Any, **kwargs: Any) -> str:
        return "disabled://"

    get_state = get_status = get_result = get_traceback = _is_disabled
    get_task_meta_for = wait_for = get_many = _is_disabled
    get_task_meta = _is_disabled
