"""What a result backend is: the classes that other backends derive from.

`Backend` encodes, decodes and says what a record consists of; a subclass stores it, by
``_store_result`` and ``_get_task_meta_for`` (and ``_forget``, ``_save_group``, ``_restore_group``,
``_delete_group``). `KeyValueStoreBackend` needs no more than ``get``, ``set``, ``mget`` and
``delete``. Hooks get their arguments by position: subclasses name them as they like.

A record that says ``SUCCESS`` is final: no later one takes its place.

Each part of `Backend` is a module beside this one: `payloads`, `records`, `chords`, `keyvalue`,
`waiting`. What programs patch here (``group``, ``maybe_signature``, ``GroupResult``, ``time``) is
called from here, for all of them.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable
from datetime import timedelta
from typing import Any, ClassVar, NamedTuple, NoReturn

from kombu.compression import get_encoder as get_compression_encoder
from kombu.serialization import prepare_accept_content
from kombu.serialization import registry as serializer_registry
from kombu.utils.functional import LRUCache
from kombu.utils.url import maybe_sanitize_url

from celery import states as states
from celery._state import get_current_task
from celery.canvas import group, maybe_signature
from celery.exceptions import ImproperlyConfigured, TimeoutError
from celery.result import GroupResult, allow_join_result
from celery.utils.collections import BufferMap

from .chords import (
    Chords,
    CountedChords,
)
from .chords import (
    _create_chord_error_with_cause as _create_chord_error_with_cause,
)
from .chords import (
    _create_fake_task_request as _create_fake_task_request,
)
from .encoding import COMPRESSED_PAYLOAD_MAGIC, compress_payload, decompress_payload
from .keyvalue import KeyValueRecords
from .records import logger as logger
from .waiting import SyncBackendMixin

__all__ = ("BaseBackend", "DisabledBackend", "KeyValueStoreBackend")

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


class Backend(Chords):
    """Base of result backends."""

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

    def _sleep(self, amount: float) -> None:
        time.sleep(amount)

    def _pause(self, waited: float, timeout: float | None, interval: float) -> float:
        """Sleep until the next look, and no longer than the caller has time; how long it was."""
        left = interval if timeout is None else min(interval, timeout - waited)
        if left <= 0:
            raise TimeoutError("The operation timed out.")
        self._sleep(left)
        return left

    def _signature(self, stored: Any) -> Any:
        return maybe_signature(stored, app=self.app)

    def _group(self, signatures: Any) -> Any:
        return group(signatures, app=self.app)

    def _saved_parts(self, group_id: str) -> Any:
        return GroupResult.restore(group_id, backend=self)

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

    def __reduce__(self, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return unpickle_backend, (type(self), args, kwargs or {})


class BaseBackend(Backend, SyncBackendMixin):
    """Base of backends that are looked at again and again."""


BaseDictBackend = BaseBackend  # its name in other distributions


class BaseKeyValueStoreBackend(KeyValueRecords, CountedChords, Backend):
    """Base of backends that store payloads under keys."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if hasattr(self.key_t, "__func__"):
            self.key_t = self.key_t.__func__  # a function, not a method
        super().__init__(*args, **kwargs)
        self._add_global_keyprefix()
        self._encode_prefixes()
        if self.implements_incr:
            self.apply_chord = self._apply_chord_incr  # type: ignore[method-assign]  # its chords


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
