"""``cache+memcached://host:port/``: results in memcached. ``cache+memory://`` is this process.

Results of tasks that another process runs are never in the memory of this one: with
``cache+memory://`` they are read from the engine's records instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from importlib import import_module
from typing import Any

from kombu.utils.encoding import bytes_to_str
from kombu.utils.functional import LRUCache
from kombu.utils.objects import cached_property

from celery.exceptions import CDeprecationWarning, ImproperlyConfigured
from celery.utils.log import get_logger

from .base import KeyValueStoreBackend

__all__ = ("CacheBackend",)

logger = get_logger(__name__)

MAX_RELATIVE_EXPIRES = 30 * 24 * 3600
"""Memcached takes a longer time for a date."""

NO_CLIENT = "The Memcached backend requires pymemcache: pip install 'celery[pymemcache]'"
NO_SERVERS = (
    "The Memcached backend needs servers, as in cache+memcached://127.0.0.1:11211/, got {!r}"
)
UNKNOWN_BACKEND = (
    "The cache backend {0!r} is unknown,\nPlease use one of the following backends instead: {1}"
)
W_CHORD_EXPIRES_TOO_LONG = (
    "result_chord_expires is longer than the 30 days that memcached can count: 30 days are used"
)

_DUMMY_CLIENT_CACHE: Any = LRUCache(limit=5000)
"""What ``memory`` clients of this process share."""

PYLIBMC_ONLY_OPTIONS = frozenset({"behaviors", "binary", "min_compress_len"})
RETRY_OPTIONS = {
    "retry_attempts": "attempts",
    "retry_delay": "retry_delay",
    "retry_for": "retry_for",
    "do_not_retry_for": "do_not_retry_for",
}
DEFAULT_CLIENT_OPTIONS = {"default_noreply": False, "timeout": 5.0, "connect_timeout": 5.0}

Key = Any


def _pymemcache() -> dict[str, Any]:
    try:
        return {
            name: import_module(f"pymemcache.client.{name}")
            for name in ("base", "hash", "retrying")
        }
    except ImportError:
        raise ImproperlyConfigured(NO_CLIENT) from None


def get_memcache_client() -> tuple[Any, Any]:
    """What makes a client of memcached, and what makes its keys. Raises `ImproperlyConfigured`
    where pymemcache is missing."""
    parts = _pymemcache()

    def make(servers: Any, **options: Any) -> Any:
        addresses = _addresses(servers)
        for name in sorted(PYLIBMC_ONLY_OPTIONS & options.keys()):
            del options[name]
            warnings.warn(
                CDeprecationWarning(f"cache_backend_options: {name} is of pylibmc alone"),
                stacklevel=2,
            )
        again = {
            parameter: options.pop(name)
            for name, parameter in RETRY_OPTIONS.items()
            if name in options
        }
        options = {**DEFAULT_CLIENT_OPTIONS, **options}
        if len(addresses) == 1:
            client = parts["base"].Client(addresses[0], **options)
        else:
            client = parts["hash"].HashClient(addresses, **options)
        return parts["retrying"].RetryingClient(client, **again) if again else client

    return make, bytes_to_str


def get_best_memcache(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
    """The former name of `get_memcache_client`."""
    warnings.warn(CDeprecationWarning("get_best_memcache is get_memcache_client"), stacklevel=2)
    return get_memcache_client()


def import_best_memcache() -> tuple[bool, Any, Any]:
    """Whether it is pylibmc (never), the library, and what makes its keys."""
    warnings.warn(CDeprecationWarning("import_best_memcache is get_memcache_client"), stacklevel=2)
    _pymemcache()
    return False, import_module("pymemcache"), bytes_to_str


def _addresses(servers: Any) -> list[Any]:
    """Servers as pymemcache wants them: pairs, or paths of sockets."""
    single = isinstance(servers, str) or (
        isinstance(servers, tuple) and len(servers) == 2 and isinstance(servers[1], int)
    )
    try:
        found = [_address(each) for each in ([servers] if single else servers or ()) if each]
    except TypeError:
        found = []
    if not found:
        raise ImproperlyConfigured(NO_SERVERS.format(servers))
    return found


def _address(server: Any) -> Any:
    if isinstance(server, tuple):
        return server
    if not isinstance(server, str):
        raise TypeError(server)
    if server.startswith("/"):
        return server
    host, _, port = server.partition(":")
    return host, int(port or 11211)


class DummyClient:
    """Memcached's calls on a dictionary of this process."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.cache: Any = _DUMMY_CLIENT_CACHE

    def get(self, key: Key, *args: Any, **kwargs: Any) -> Any:
        return self.cache.get(key)

    def get_multi(self, keys: Iterable[Key]) -> dict[Key, Any]:
        return {key: self.cache[key] for key in keys if key in self.cache}

    get_many = get_multi

    def set(self, key: Key, value: Any, *args: Any, **kwargs: Any) -> None:
        self.cache[key] = value

    def delete(self, key: Key, *args: Any, **kwargs: Any) -> None:
        self.cache.pop(key, None)

    def incr(self, key: Key, delta: int = 1) -> Any:
        return self.cache.incr(key, delta)

    def touch(self, key: Key, expire: Any) -> None:
        """Nothing expires here."""


backends: dict[str, Any] = {
    **dict.fromkeys(("memcache", "memcached", "pylibmc", "pymemcache"), get_memcache_client),
    "memory": lambda: (DummyClient, bytes_to_str),
}
"""What gives the client's class and what makes its keys, by the scheme of the URL."""


class CacheBackend(KeyValueStoreBackend):
    """Stores records in memcached, or in the memory of this process."""

    servers: Any = None
    supports_autoexpire = True
    supports_native_join = True
    implements_incr = True
    key_t = bytes_to_str

    def __init__(
        self,
        app: Any,
        expires: Any = None,
        backend: Any = None,
        options: Any = None,
        url: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.url = url
        super().__init__(app, url=url, **kwargs)
        conf = self.app.conf
        self.options = {**(conf.cache_backend_options or {}), **(options or {})}
        self.backend = url or backend or conf.cache_backend
        if self.backend:
            self.backend, _, servers = self.backend.partition("://")
            self.servers = servers.rstrip("/").split(";")
        self.expires = self.prepare_expires(expires, type=int)
        try:
            make = backends[self.backend]
        except KeyError:
            known = ", ".join(backends)
            raise ImproperlyConfigured(UNKNOWN_BACKEND.format(self.backend, known)) from None
        self._make_client, self.key_t = make()  # type: ignore[method-assign]  # a function
        self._encode_prefixes()

    @cached_property
    def client(self) -> Any:
        """The client of memcached."""
        return self._make_client(self.servers, **self.options)

    def get(self, key: Key) -> Any:
        return self.client.get(key)

    def mget(self, keys: Any) -> Any:
        many = getattr(self.client, "get_multi", None) or self.client.get_many
        return many(keys)

    def set(self, key: Key, value: Any) -> Any:
        return self.client.set(key, value, int(self.expires or 0))

    def delete(self, key: Key) -> Any:
        return self.client.delete(key)

    def incr(self, key: Key) -> Any:
        return self.client.incr(key, 1)

    def expire(self, key: Key, value: Any) -> Any:
        return self.client.touch(key, int(value or 0))

    def _apply_chord_incr(self, header_result_args: Any, body: Any, **kwargs: Any) -> Any:
        chord_key = self.get_key_for_chord(header_result_args[0])
        expires = int(self.chord_expires or 0)
        if expires > MAX_RELATIVE_EXPIRES:
            logger.warning(W_CHORD_EXPIRES_TOO_LONG)
            expires = MAX_RELATIVE_EXPIRES
        self.client.set(chord_key, 0, expires)
        return super()._apply_chord_incr(header_result_args, body, **kwargs)

    def as_uri(self, *args: Any, **kwargs: Any) -> str:
        servers = ";".join(self.servers or ())
        return f"{self.backend}://{servers}/"

    def __reduce__(self, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        given = {"expires": self.expires, "backend": self.as_uri(), "options": self.options}
        return super().__reduce__(args, {**given, **(kwargs or {})})
