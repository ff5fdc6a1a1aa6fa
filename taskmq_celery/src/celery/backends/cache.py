"""``cache+memcached://host:port/``: results in memcached. ``cache+memory://`` is this process.

Results of tasks that another process runs are never in the memory of this one: with
``cache+memory://`` they are read from the engine's records instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from kombu.utils.encoding import bytes_to_str
from kombu.utils.functional import LRUCache
from kombu.utils.objects import cached_property

from celery.exceptions import ImproperlyConfigured
from celery.utils.log import get_logger

from .base import KeyValueStoreBackend

__all__ = ("CacheBackend",)

logger = get_logger(__name__)

MAX_RELATIVE_EXPIRES = 30 * 24 * 3600
"""Memcached takes a longer time for a date."""

NO_CLIENT = "The Memcached backend requires either pylibmc or pymemcache"
UNKNOWN_BACKEND = (
    "The cache backend {0!r} is unknown,\nPlease use one of the following backends instead: {1}"
)

_DUMMY_CLIENT_CACHE: Any = LRUCache(limit=5000)
"""What ``memory`` clients of this process share."""

PYLIBMC_ONLY_OPTIONS = ("behaviors", "binary", "min_compress_len", "username", "password")

Key = Any


def get_memcache_client() -> tuple[bool, Any, Any]:
    """Whether it is pylibmc, its client class, and what makes its keys. Raises
    `ImproperlyConfigured` where neither client is installed."""
    try:
        pylibmc = import_module("pylibmc")
    except ImportError:
        try:
            pymemcache = import_module("pymemcache.client.hash")
        except ImportError:
            raise ImproperlyConfigured(NO_CLIENT) from None
        return False, pymemcache.HashClient, bytes_to_str
    return True, pylibmc.Client, bytes_to_str


import_best_memcache = get_memcache_client


def get_best_memcache(*args: Any, **kwargs: Any) -> Any:
    """A client of whichever library is installed."""
    is_pylibmc, client, _ = import_best_memcache()
    if not is_pylibmc:
        kwargs = {name: kwargs[name] for name in kwargs if name not in PYLIBMC_ONLY_OPTIONS}
        servers, *rest = args
        args = ([_address(each) for each in servers], *rest)
    return client(*args, **kwargs)


def _address(server: Any) -> Any:
    """A server as pymemcache wants it: a pair, or the path of a socket."""
    if not isinstance(server, str) or server.startswith("/"):
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
    "memcache": get_best_memcache,
    "memcached": get_best_memcache,
    "pylibmc": get_best_memcache,
    "pymemcache": get_best_memcache,
    "memory": DummyClient,
}


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
            self.Client = backends[self.backend]
        except KeyError:
            known = ", ".join(backends)
            raise ImproperlyConfigured(UNKNOWN_BACKEND.format(self.backend, known)) from None
        self._encode_prefixes()

    @cached_property
    def client(self) -> Any:
        """The client of memcached."""
        return self.Client(self.servers, **self.options)

    def get(self, key: Key) -> Any:
        return self.client.get(key)

    def mget(self, keys: Any) -> Any:
        many = getattr(self.client, "get_multi", None) or self.client.get_many
        return many(keys)

    def set(self, key: Key, value: Any) -> Any:
        return self.client.set(key, value, self.expires)

    def delete(self, key: Key) -> Any:
        return self.client.delete(key)

    def incr(self, key: Key) -> Any:
        return self.client.incr(key)

    def expire(self, key: Key, value: Any) -> Any:
        return self.client.touch(key, value)

    def _apply_chord_incr(self, header_result_args: Any, body: Any, **kwargs: Any) -> Any:
        chord_key = self.get_key_for_chord(header_result_args[0])
        expires = int(self.chord_expires or 0)
        if expires > MAX_RELATIVE_EXPIRES:
            logger.warning("result_chord_expires is longer than memcached can count: 30 days")
            expires = MAX_RELATIVE_EXPIRES
        self.client.set(chord_key, 0, expires)
        return super()._apply_chord_incr(header_result_args, body, **kwargs)

    def as_uri(self, *args: Any, **kwargs: Any) -> str:
        servers = ";".join(self.servers or ())
        return f"{self.backend}://{servers}/"

    def __reduce__(self, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        given = {"expires": self.expires, "backend": self.as_uri(), "options": self.options}
        return super().__reduce__(args, {**given, **(kwargs or {})})
