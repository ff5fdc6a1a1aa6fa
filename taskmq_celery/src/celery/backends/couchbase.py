"""``couchbase://user:password@host:port/bucket``: a document for each result, in Couchbase."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from kombu.utils.url import url_to_parts

from celery.exceptions import ImproperlyConfigured

from .base import KeyValueStoreBackend
from .drivers import named, require

__all__ = ("CouchbaseBackend",)

(PasswordAuthenticator,) = named("couchbase.auth", "PasswordAuthenticator")
(Cluster,) = named("couchbase.cluster", "Cluster")
(ClusterOptions,) = named("couchbase.options", "ClusterOptions")
(DocumentNotFoundException,) = named("couchbase.exceptions", "DocumentNotFoundException")

NOT_A_DICT = "couchbase_backend_settings must be a dict, got {!r}"
OPTIONS = ("host", "port", "bucket", "username", "password")


class CouchbaseBackend(KeyValueStoreBackend):
    """Stores records as documents of a bucket's default collection."""

    bucket = "default"
    host: Any = "localhost"
    port = 8091
    username: str | None = None
    password: str | None = None
    supports_autoexpire = True
    key_t = str

    def __init__(self, url: str | None = None, *args: Any, **kwargs: Any) -> None:
        kwargs.setdefault("expires_type", int)
        super().__init__(*args, url=url, **kwargs)
        require(Cluster, "couchbase", "Couchbase", "couchbase")
        settings = self.app.conf.get("couchbase_backend_settings", None)
        if settings is not None and not isinstance(settings, dict):
            raise ImproperlyConfigured(NOT_A_DICT.format(settings))
        given = {name: (settings or {}).get(name) for name in OPTIONS}
        if url:
            parts = url_to_parts(url)
            given = {
                "host": parts.hostname or given["host"],
                "port": parts.port or given["port"],
                "bucket": (parts.path or "").strip("/") or given["bucket"],
                "username": parts.username or given["username"],
                "password": parts.password or given["password"],
            }
        for name, value in given.items():
            if value:
                setattr(self, name, int(value) if name == "port" else value)
        self._connection: Any = None

    @property
    def connection(self) -> Any:
        """The collection of documents."""
        return self._get_connection()

    def _get_connection(self) -> Any:
        if self._connection is None:
            hosts = [self.host] if isinstance(self.host, str) else self.host
            address = "couchbase://" + ",".join(f"{host}:{self.port}" for host in hosts)
            options = []
            if self.username or self.password:
                options = [ClusterOptions(PasswordAuthenticator(self.username, self.password))]
            cluster = Cluster(address, *options)
            self._connection = cluster.bucket(self.bucket).default_collection()
        return self._connection

    def get(self, key: Any) -> Any:
        try:
            return self.connection.get(key).content
        except DocumentNotFoundException:
            return None

    def mget(self, keys: Iterable[Any]) -> dict[Any, Any]:
        answer = self.connection.get_multi(list(keys), {"return_exceptions": True})
        for error in answer.exceptions.values():
            if not isinstance(error, DocumentNotFoundException):
                raise error
        found = {key: each.content for key, each in answer.results.items()}
        return {**dict.fromkeys(answer.exceptions), **found}

    def set(self, key: Any, value: Any) -> None:
        options = {"expiry": timedelta(seconds=self.expires)} if self.expires else {}
        self.connection.upsert(key, value, **options)

    def delete(self, key: Any) -> None:
        with contextlib.suppress(DocumentNotFoundException):
            self.connection.remove(key)
