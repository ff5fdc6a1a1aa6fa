"""``couchdb://user:password@host:port/database``: a document for each result, in CouchDB.

``couchdb+https://…`` for TLS. The database is created where it does not exist.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from kombu.utils.encoding import bytes_to_str
from kombu.utils.url import url_to_parts

from .base import KeyValueStoreBackend
from .drivers import library, require

__all__ = ("CouchBackend",)

pycouchdb = library("pycouchdb")


class CouchBackend(KeyValueStoreBackend):
    """Stores records as documents with one field, ``value``."""

    container = "default"
    """The database."""
    scheme = "http"
    host = "localhost"
    port = 5984
    username: str | None = None
    password: str | None = None

    def __init__(self, url: str | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, url=url, **kwargs)
        require(pycouchdb, "pycouchdb", "CouchDB", "couchdb")
        if url:
            parts = url_to_parts(url)
            if parts.scheme and parts.scheme != "couchdb":
                self.scheme = parts.scheme
            self.host, self.port = parts.hostname or self.host, parts.port or self.port
            self.username, self.password = parts.username, parts.password
            self.container = (parts.path or "").strip("/") or self.container
        self._connection: Any = None

    @property
    def connection(self) -> Any:
        """The database, opened when it is first needed."""
        if self._connection is None:
            self._connection = self._get_connection()
        return self._connection

    def _get_connection(self) -> Any:
        place = f"{self.host}:{self.port}"
        if self.username and self.password:
            login = f"{quote(self.username, safe='')}:{quote(self.password, safe='')}"
            server = pycouchdb.Server(f"{self.scheme}://{login}@{place}", authmethod="basic")
        else:
            server = pycouchdb.Server(f"{self.scheme}://{place}")
        try:
            return server.database(self.container)
        except pycouchdb.exceptions.NotFound:
            return server.create(self.container)

    def get(self, key: Any) -> Any:
        try:
            return self.connection.get(bytes_to_str(key))["value"]
        except pycouchdb.exceptions.NotFound:
            return None

    def mget(self, keys: Iterable[Any]) -> list[Any]:
        return [self.get(key) for key in keys]

    def set(self, key: Any, value: Any) -> None:
        name = bytes_to_str(key)
        try:
            self.connection.save({"_id": name, "value": value})
        except pycouchdb.exceptions.Conflict:  # there is one: it is changed as it was read
            document = self.connection.get(name)
            document["value"] = value
            self.connection.save(document)

    def delete(self, key: Any) -> None:
        with contextlib.suppress(pycouchdb.exceptions.NotFound):
            self.connection.delete(bytes_to_str(key))
