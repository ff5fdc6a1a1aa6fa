"""``redis://``, ``rediss://`` and ``sentinel://``: results in Redis, as Celery keeps them.

A record is the value of ``celery-task-meta-<id>``, and is published under that name: whoever
waits hears of it at once, and whoever comes later reads it.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any
from uuid import uuid4

from kombu.utils.functional import retry_over_time
from kombu.utils.imports import symbol_by_name
from kombu.utils.url import maybe_sanitize_url

from celery import states
from celery._state import task_join_will_block
from celery.canvas import maybe_signature
from celery.exceptions import BackendStoreError, ChordError, ImproperlyConfigured
from celery.utils.log import get_logger
from celery.utils.time import humanize_seconds

from . import base
from .asynchronous import AsyncBackendMixin, BaseResultConsumer
from .base import BaseKeyValueStoreBackend, _create_chord_error_with_cause
from .redisurl import conf_params, driver_params, merged_url, ssl_params

__all__ = ("RedisBackend", "SentinelBackend")

logger = get_logger(__name__)

E_REDIS_MISSING = (
    "You need to install the redis library in order to use the Redis result store backend."
)
E_REDIS_SENTINEL_MISSING = (
    "You need to install the redis library with support of sentinel in order to use the Redis "
    "result store backend."
)
E_LOST = "Connection to Redis lost: Retry (%s/%s) %s."
W_DECODED = "result_compression is ignored: decode_responses makes text of what Redis stores"

CHORD_REMEMBERED = 24 * 3600
"""Seconds for which it is known that the body of a chord was sent, where its keys never expire."""

_LUA = Path(__file__).with_name("lua")
CHORD_PART_RETURN_LUA = _LUA.joinpath("chord_part.lua").read_text()
CHORD_CLEANUP_LUA = _LUA.joinpath("chord_cleanup.lua").read_text()
CHORD_CLAIM_EXTEND_LUA = _LUA.joinpath("chord_extend.lua").read_text()


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


_redis = _module("redis")
SSL_CONNECTION = _redis.connection.SSLConnection if _redis else None


class ResultConsumer(BaseResultConsumer):
    """Receives records by subscription."""

    _pubsub: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._connection_errors = self.backend.connection_errors
        self._get_key_for_task = self.backend.get_key_for_task
        self.subscribed_to: set[Any] = set()
        self._pubsub_lock = threading.RLock()
        self._depth = 0  # how often the thread that has the lock is inside
        # A result that is garbage collected cancels its subscription, in the middle of anything:
        # what cannot be sent at once is sent when the connection is free again.
        self._pending_unsubscribe: set[Any] = set()

    def on_after_fork(self) -> None:
        self._pubsub_lock, self._depth = threading.RLock(), 0
        try:
            self.backend.client.connection_pool.reset()
            if self._pubsub is not None:
                self._pubsub.close()
        except KeyError as error:
            logger.warning("Cannot drop the connection of the parent process: %r", error)
        super().on_after_fork()

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Use the connection alone. What was cancelled meanwhile is sent at the outermost end."""
        with self._pubsub_lock:
            self._depth += 1
            try:
                yield
            except BaseException:
                self._send_pending(quietly=True)
                raise
            else:
                self._send_pending()
            finally:
                self._depth -= 1

    def _send_pending(self, *, quietly: bool = False) -> None:
        """Unsubscribe from what was cancelled; also from what is cancelled while that is sent."""
        try:
            while self._depth == 1 and self._pending_unsubscribe and self._pubsub is not None:
                keys, self._pending_unsubscribe = self._pending_unsubscribe, set()
                with self.reconnect_on_error():
                    self._pubsub.unsubscribe(*keys)
        except Exception:
            if not quietly:
                raise
            logger.exception("Failed to unsubscribe pending results")

    def start(self, initial_task_id: str, **kwargs: Any) -> None:
        with self._locked():
            self._pubsub = self.backend.client.pubsub(ignore_subscribe_messages=True)
            self._subscribe(self._get_key_for_task(initial_task_id))

    def stop(self) -> None:
        if self._pubsub is not None:
            self._pubsub.close()
            self._pubsub = None

    def _reconnect(self) -> None:
        """Subscribe again; what has ended meanwhile is read."""
        self._pubsub = None
        self.backend.client.connection_pool.reset()
        if self.subscribed_to:
            for payload in filter(None, self.backend.client.mget(list(self.subscribed_to))):
                self.on_state_change(self._decode_result(payload), None)
        with self._locked():
            self._pending_unsubscribe = set()  # a new connection has no subscriptions
            self._pubsub = self.backend.client.pubsub(ignore_subscribe_messages=True)
            if self.subscribed_to:
                self._pubsub.subscribe(*self.subscribed_to)
            else:
                self._pubsub.connection = self._pubsub.connection_pool.get_connection()
                self._pubsub.connection.register_connect_callback(self._pubsub.on_connect)

    _reconnect_pubsub = _reconnect

    def _decode_result(self, payload: Any) -> dict[str, Any]:
        meta: dict[str, Any] = self.backend.decode_result(payload)
        return meta

    def on_state_change(self, meta: dict[str, Any], message: Any) -> None:
        super().on_state_change(meta, message)
        if meta["status"] in states.READY_STATES:
            self.cancel_for(meta["task_id"])

    def on_wait_for_pending(self, result: Any, timeout: float | None = None, **kwargs: Any) -> None:
        """What ended before it was subscribed to is read."""
        for meta in result._iter_meta(**kwargs):
            if meta is not None:
                self.on_state_change(meta, None)
                if meta.get("status") in (states.SUCCESS, states.FAILURE):
                    self.backend._pending_messages.take(meta.get("task_id"), None)

    def drain_events(self, timeout: float | None = None) -> None:
        if self._pubsub is None:
            if timeout:
                time.sleep(timeout)
            return
        pubsub = self._pubsub
        waits = 0.0 if _readable(pubsub, timeout) else timeout
        with self._locked(), self.reconnect_on_error():
            message = pubsub.get_message(timeout=waits) if pubsub is self._pubsub else None
            if message and message["type"] == "message":
                self.on_state_change(self._decode_result(message["data"]), message)

    def consume_from(self, task_id: str) -> None:
        if self._pubsub is None:
            self.start(task_id)
            return
        with self._locked():
            self._subscribe(self._get_key_for_task(task_id))

    def _subscribe(self, key: Any) -> None:
        self._pending_unsubscribe.discard(key)
        if key in self.subscribed_to:
            return
        self.subscribed_to.add(key)
        with self.reconnect_on_error():
            self._pubsub.subscribe(key)

    def cancel_for(self, task_id: str) -> None:
        key = self._get_key_for_task(task_id)
        if key not in self.subscribed_to:
            return
        self.subscribed_to.discard(key)
        self._pending_unsubscribe.add(key)
        if not self._pubsub_lock.acquire(blocking=False):
            return  # whoever has it sends this too, before letting go
        try:
            if not self._depth:
                with self._locked():
                    pass  # at its end
        finally:
            self._pubsub_lock.release()


def _readable(pubsub: Any, timeout: float | None) -> bool:
    """Wait until something can be read, while others may use the connection; false where that
    cannot be seen from outside."""
    sock = getattr(getattr(pubsub, "connection", None), "_sock", None)
    if not isinstance(sock, socket.socket) or sock.fileno() < 0:
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        selector.select(timeout)
    return True


class RedisBackend(BaseKeyValueStoreBackend, AsyncBackendMixin):
    """Stores records in Redis."""

    ResultConsumer: Any = ResultConsumer
    redis: Any = _redis
    connection_class_ssl: Any = SSL_CONNECTION

    max_connections: int | None = None
    supports_autoexpire = True
    supports_native_join = True
    supports_result_compression = True
    supports_failure_expires = True

    _MAX_STR_VALUE_SIZE = 512 * 1024 * 1024
    """More than that Redis does not take as a value."""

    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        db: int | None = None,
        password: str | None = None,
        max_connections: int | None = None,
        url: str | None = None,
        connection_pool: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(expires_type=int, **kwargs)
        if self.redis is None:
            raise ImproperlyConfigured(E_REDIS_MISSING.strip())
        if host and "://" in host:
            url, host = host, None
        conf = self.app.conf
        self.max_connections = (
            max_connections or conf.get("redis_max_connections", None) or self.max_connections
        )
        self._ConnectionPool = connection_pool
        self.connparams: dict[str, Any] = {
            **conf_params(conf, host, port, db, password),
            "max_connections": self.max_connections,
            **driver_params(symbol_by_name("celery:__version__")),
        }
        use_ssl = conf.get("redis_backend_use_ssl", None)
        if use_ssl:
            self.connparams.update(use_ssl, connection_class=self.connection_class_ssl)
        if url:
            self.connparams = self._params_from_url(url, self.connparams)
        if self.connparams.get("connection_class") is self.connection_class_ssl and (
            self.connection_class_ssl is not None
        ):
            self.connparams = ssl_params(self.connparams)
        if self.connparams.get("decode_responses") and self.compression:
            logger.warning(W_DECODED)
            self.compression = None
        self.url = url
        self.failure_expires = self._failure_expires()
        self.connection_errors, self.channel_errors = self._error_classes()
        self.result_consumer = self.ResultConsumer(
            self, self.app, self.accept, self._pending_results, self._pending_messages
        )

    def _params_from_url(self, url: str, defaults: Any) -> dict[str, Any]:
        """The parameters of a connection; for subclasses."""
        return merged_url(url, defaults, self.redis, self.connection_class_ssl)

    def _failure_expires(self) -> Any:
        configured = self.app.conf.get("result_failure_expires", None)
        return self.expires if configured is None else self.prepare_expires(configured, int)

    def _error_classes(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        errors = symbol_by_name("kombu.transport.redis:get_redis_error_classes")()
        more = self._transport_options.get("additional_connection_errors") or ()
        if isinstance(more, (str, type)):
            more = (more,)
        return (*errors.connection_errors, *filter(None, map(_error_class, more))), (
            *errors.channel_errors,
        )

    # -- the connection ----------------------------------------------------------------------

    @property
    def _transport_options(self) -> dict[str, Any]:
        return self.app.conf.get("result_backend_transport_options", None) or {}

    @property
    def ConnectionPool(self) -> Any:  # noqa: N802  # Celery's name
        """The class of the pool of connections."""
        if self._ConnectionPool is None:
            self._ConnectionPool = self.redis.ConnectionPool
        return self._ConnectionPool

    @cached_property
    def client(self) -> Any:
        """The client of redis-py."""
        return self._create_client(**self.connparams)

    def _create_client(self, **params: Any) -> Any:
        return self._get_client()(connection_pool=self._get_pool(**params))

    def _get_client(self) -> Any:
        return self.redis.StrictRedis

    def _get_pool(self, **params: Any) -> Any:
        return self.ConnectionPool(**params)

    def close(self) -> None:
        self.result_consumer.stop()
        client = vars(self).pop("client", None)
        if client is not None:
            client.connection_pool.disconnect()

    def exception_safe_to_retry(self, exc: BaseException) -> bool:
        return isinstance(exc, self.connection_errors)

    _retry_policy: dict[str, Any] | None = None

    @property
    def retry_policy(self) -> dict[str, Any]:
        """How often a command is tried again."""
        if self._retry_policy is None:
            given = self._transport_options.get("retry_policy") or {}
            self._retry_policy = {**BaseKeyValueStoreBackend.retry_policy, **given}
        return self._retry_policy

    @retry_policy.setter
    def retry_policy(self, policy: dict[str, Any]) -> None:
        self._retry_policy = policy

    def ensure(self, fun: Any, args: Any, **policy: Any) -> Any:
        """``fun(*args)``, again where the connection is lost."""
        policy = {**self.retry_policy, **policy}
        lost = partial(self.on_connection_error, policy.get("max_retries"))
        return retry_over_time(fun, self.connection_errors, args, {}, lost, **policy)

    def on_connection_error(
        self, max_retries: int | None, exc: BaseException, intervals: Any, retries: int
    ) -> float:
        """Tell that the connection is lost; seconds until the next attempt."""
        pause: float = next(intervals)
        logger.error(E_LOST, retries, max_retries or "Inf", humanize_seconds(pause, "in "))
        return pause

    # -- records -----------------------------------------------------------------------------

    def on_task_call(self, producer: Any, task_id: str) -> None:
        if not task_join_will_block():
            self.result_consumer.consume_from(task_id)

    def get(self, key: Any) -> Any:
        return self.client.get(key)

    def mget(self, keys: Any) -> Any:
        return self.client.mget(keys)

    def _set_with_state(self, key: Any, value: Any, state: Any) -> Any:
        kept = self.failure_expires if state == states.FAILURE else self.expires
        return self.set(key, value, expires=kept)

    def set(self, key: Any, value: Any, expires: Any = None, **retry_policy: Any) -> Any:
        if isinstance(value, (str, bytes)) and len(value) > self._MAX_STR_VALUE_SIZE:
            raise BackendStoreError("value too large for Redis backend")
        if expires is None:
            expires = self.expires
        return self.ensure(self._set, (key, value, expires), **retry_policy)

    def _set(self, key: Any, value: Any, expires: Any = None) -> None:
        with self.client.pipeline() as pipe:
            pipe.set(key, value, ex=expires or None)
            pipe.publish(key, value)
            pipe.execute()

    def forget(self, task_id: str) -> None:
        super().forget(task_id)
        self.result_consumer.cancel_for(task_id)

    def delete(self, key: Any) -> Any:
        return self.client.delete(key)

    def incr(self, key: Any) -> Any:
        return self.client.incr(key)

    def expire(self, key: Any, value: Any) -> Any:
        return self.client.expire(key, value)

    # -- chords of other makers --------------------------------------------------------------

    def add_to_chord(self, group_id: str, result: Any) -> None:
        self.client.incr(self.get_key_for_group(group_id, ".t"), 1)

    def set_chord_size(self, group_id: str, chord_size: int) -> None:
        with self.client.pipeline() as pipe:
            pipe.delete(self.get_key_for_group(group_id, ".c"))
            pipe.set(
                self.get_key_for_group(group_id, ".s"),
                chord_size,
                ex=self.prepare_expires(self.chord_expires, int) or None,
            )
            pipe.execute()

    def _set_chord_key(self, key: Any, value: Any) -> None:
        if len(value) > self._MAX_STR_VALUE_SIZE:
            raise BackendStoreError("value too large for Redis backend")
        self.client.set(key, value, ex=self.prepare_expires(self.chord_expires, int) or None)

    def apply_chord(self, header_result_args: Any, body: Any, **kwargs: Any) -> None:
        """A header with groups in it is saved: their results are joined later."""
        header = self.app.GroupResult(*header_result_args)
        if any(isinstance(each, base.GroupResult) for each in header.results):
            saved = self.encode({"result": header.as_tuple()})
            self._set_chord_key(self.get_key_for_group(header.id), saved)

    @cached_property
    def _chord_zset(self) -> bool:
        """Whether parts are kept in the order of the header, not in that of their ends."""
        return bool(self._transport_options.get("result_chord_ordered", True))

    @cached_property
    def _chord_part_return_script(self) -> Any:
        return self.client.register_script(CHORD_PART_RETURN_LUA)

    @cached_property
    def _chord_cleanup_script(self) -> Any:
        return self.client.register_script(CHORD_CLEANUP_LUA)

    def on_chord_part_return(
        self, request: Any, state: Any, result: Any, propagate: Any = None, **kwargs: Any
    ) -> None:
        task_id, group_id, index = request.id, request.group, request.group_index
        if not group_id or not task_id:
            return
        keys = {
            name: self.get_key_for_group(group_id, name)
            for name in (".j", ".t", ".s", ".d", "", ".c")
        }
        part = self.encode([1, task_id, state, self.encode_result(result, state)])
        if len(part) > self._MAX_STR_VALUE_SIZE:
            raise BackendStoreError("value too large for Redis backend")
        keep = int(self.chord_expires or 0) or ""
        keep_group = max(int(self.expires or 0), int(keep or 0)) if self.expires else ""
        token = uuid4().hex
        hold = int(2 * (self.app.conf.get("result_chord_join_timeout", None) or 3.0)) or 1
        score = "+inf" if index is None else index
        arguments = [task_id, part, 1 if self._chord_zset else "", score]
        _, added, size, mine = self._chord_part_return_script(
            keys=[keys[name] for name in (".j", ".t", ".s", ".d", "", ".c")],
            args=[*arguments, keep, keep_group, hold, token],
            client=self.client,
        )
        if not mine:
            return
        callback = maybe_signature(request.chord, app=self.app)
        try:
            callback.delay(self._chord_values(group_id, keys[".j"], int(size) + int(added or 0)))
        except ChordError as error:
            logger.exception("Chord %r raised: %r", group_id, error)
            self.chord_error_from_stack(callback, error)
        except Exception as error:
            logger.exception("Chord %r raised: %r", group_id, error)
            reason = f"Join error: {error!r}"
            self.chord_error_from_stack(callback, _create_chord_error_with_cause(reason, error))
        finally:
            self._chord_cleanup_script(
                keys=[keys[name] for name in (".c", ".j", ".t", ".s", ".d")],
                args=[token, int(self.chord_expires or 0) or CHORD_REMEMBERED],
                client=self.client,
            )

    def _chord_values(self, group_id: str, key: Any, size: int) -> list[Any]:
        saved = base.GroupResult.restore(group_id, app=self.app)
        if saved is not None:
            join = saved.join_native if saved.supports_native_join else saved.join
            with base.allow_join_result():
                values: list[Any] = join(
                    timeout=self.app.conf.result_chord_join_timeout, propagate=True
                )
                return values
        read = self.client.zrangebyscore if self._chord_zset else self.client.lrange
        bounds = ("-inf", "+inf") if self._chord_zset else (0, size)
        return [self._unpack_chord_result(each, self.decode) for each in read(key, *bounds)]

    def _unpack_chord_result(
        self,
        tup: Any,
        decode: Any,
        EXCEPTION_STATES: Any = states.EXCEPTION_STATES,  # noqa: N803  # Celery's name
        PROPAGATE_STATES: Any = states.PROPAGATE_STATES,  # noqa: N803  # Celery's name
    ) -> Any:
        _, task_id, state, value = decode(tup)
        if state in EXCEPTION_STATES:
            value = self.exception_to_python(value)
        if state in PROPAGATE_STATES:
            raise _create_chord_error_with_cause(f"Dependency {task_id} raised {value!r}", value)
        return value

    def __reduce__(self, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return super().__reduce__(
            args, {**(kwargs or {}), "expires": self.expires, "url": self.url}
        )


def _error_class(given: Any) -> Any:
    """An exception class, from itself or a path; ``None`` for anything else."""
    try:
        found = symbol_by_name(given) if isinstance(given, str) else given
    except (ImportError, AttributeError) as error:
        logger.warning("additional_connection_errors: %r is left out: %r", given, error)
        return None
    return found if isinstance(found, type) and issubclass(found, BaseException) else None


if _redis is not None:
    from redis.sentinel import SentinelManagedConnection

    class SentinelManagedSSLConnection(SentinelManagedConnection, _redis.SSLConnection):  # type: ignore[misc,name-defined]  # chosen at run time
        """A connection with TLS to whatever is the master."""

    SENTINEL_SSL_CONNECTION: Any = SentinelManagedSSLConnection
else:
    SENTINEL_SSL_CONNECTION = None


class SentinelBackend(RedisBackend):
    """Stores records in whatever Redis the sentinels say is the master."""

    _SERVER_URI_SEPARATOR = ";"
    sentinel: Any = _module("redis.sentinel")
    connection_class_ssl = SENTINEL_SSL_CONNECTION

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if self.sentinel is None:
            raise ImproperlyConfigured(E_REDIS_SENTINEL_MISSING.strip())
        super().__init__(*args, **kwargs)

    def as_uri(self, include_password: bool = False) -> str:
        urls = (self.url or "").split(self._SERVER_URI_SEPARATOR)
        if include_password:
            return self._SERVER_URI_SEPARATOR.join(urls)
        return self._SERVER_URI_SEPARATOR.join(
            maybe_sanitize_url(each).removesuffix("/") for each in urls
        )

    def _params_from_url(self, url: str, defaults: Any) -> dict[str, Any]:
        hosts = [
            super(SentinelBackend, self)._params_from_url(each, defaults)
            for each in url.split(self._SERVER_URI_SEPARATOR)
        ]
        shared = ("db", "username", "password", "credential_provider")
        params = {
            name: value for name, value in dict(defaults).items() if name not in ("host", "port")
        }
        for name in shared:
            if hosts[0].get(name) is not None:
                params[name] = hosts[0][name]
        return {**params, "hosts": hosts}

    def _get_sentinel_instance(self, **params: Any) -> Any:
        options = self._transport_options
        hosts = [(each["host"], each["port"]) for each in params.pop("hosts")]
        return self.sentinel.Sentinel(
            hosts,
            min_other_sentinels=options.get("min_other_sentinels", 0),
            sentinel_kwargs=options.get("sentinel_kwargs", {}),
            **params,
        )

    def _get_pool(self, **params: Any) -> Any:
        sentinel = self._get_sentinel_instance(**params)
        params.pop("hosts", None)
        name = self._transport_options.get("master_name", None)
        given = {key: value for key, value in params.items() if value is not None}
        return sentinel.master_for(
            service_name=name, redis_class=self._get_client(), **given
        ).connection_pool
