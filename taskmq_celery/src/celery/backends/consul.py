"""``consul://host:port``: a key for each result, in the key-value store of HashiCorp's Consul.

A key is held by a session, and deleted when that ends: that is how results expire. With
``?one_client=1`` one client does everything, in place of a new one each time.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kombu.utils.encoding import bytes_to_str
from kombu.utils.url import url_to_parts

from .base import KeyValueStoreBackend
from .drivers import library, require

__all__ = ("ConsulBackend",)

consul = library("consul")

DEFAULT_PORT = 8500
SHORTEST, LONGEST = 10, 24 * 3600
"""Seconds that a session of Consul can last."""


class ConsulBackend(KeyValueStoreBackend):
    """Stores records under keys. Results that are to be kept longer than a day vanish after a day,
    which is the longest that a session lasts."""

    consul: Any = consul
    supports_autoexpire = True
    consistency = "consistent"
    path: str | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        require(self.consul, "python-consul2", "Consul", "consul")
        parts = url_to_parts(self.url or "consul://")
        self.hostname = parts.hostname or "localhost"
        self.port = parts.port or DEFAULT_PORT
        self.path = (parts.path or "").strip("/") or None
        wanted = bool(int((parts.query or {}).get("one_client", 0)))
        self.one_client: Any = self._new_client() if wanted else None

    def _new_client(self) -> Any:
        return consul.Consul(host=self.hostname, port=self.port, consistency=self.consistency)

    def client(self) -> Any:
        """The client for one operation."""
        return self.one_client or self._new_client()

    def _key_to_consul_key(self, key: Any) -> str:
        name: str = bytes_to_str(key)
        return f"{self.path}/{name}" if self.path else name

    def get(self, key: Any) -> Any:
        _, found = self.client().kv.get(self._key_to_consul_key(key))
        return found["Value"] if found else None

    def mget(self, keys: Iterable[Any]) -> list[Any]:
        return [self.get(key) for key in keys]

    def set(self, key: Any, value: Any) -> bool:
        name, client = self._key_to_consul_key(key), self.client()
        if not self.expires:
            return bool(client.kv.put(name, value))
        seconds = min(max(int(self.expires), SHORTEST), LONGEST)
        session = client.session.create(name=name, behavior="delete", ttl=seconds)
        if client.kv.put(name, value, acquire=session):
            return True
        # The session of an earlier state holds the key: it goes on doing so.
        client.session.destroy(session)
        return bool(client.kv.put(name, value))

    def delete(self, key: Any) -> Any:
        return self.client().kv.delete(self._key_to_consul_key(key))
