"""``arangodb://user:password@host:port/database/collection``: a document for each result, in
ArangoDB. Both have to exist."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from kombu.utils.objects import cached_property
from kombu.utils.url import url_to_parts

from celery.exceptions import ImproperlyConfigured

from .base import KeyValueStoreBackend
from .drivers import library, require

__all__ = ("ArangoDbBackend",)

py_arango_connection = library("pyArango.connection")

NOT_A_DICT = "arangodb_backend_settings must be a dict, got {!r}"
OPTIONS = ("host", "port", "database", "collection", "username", "password")


def _aql(*lines: str) -> str:
    return "".join(f"\n{'':12}{line}" for line in (*lines, ""))


READ = "RETURN DOCUMENT(@@collection, @key).task"
READ_MANY = "FOR k IN @keys RETURN DOCUMENT(@@collection, k).task"
WRITE = _aql(
    "UPSERT {_key: @key}",
    "INSERT {_key: @key, task: @value}",
    "UPDATE {task: @value} IN @@collection",
)
DELETE = "REMOVE {_key: @key} IN @@collection OPTIONS { ignoreErrors: true }"
# A record is text: an attribute of it would be null, which is less than any date.
CLEAN_UP = _aql(
    "FOR record IN @@collection",
    "    LET done = JSON_PARSE(record.task).date_done",
    "    FILTER done != null AND done < @checkpoint",
    "    REMOVE record IN @@collection",
)


class ArangoDbBackend(KeyValueStoreBackend):
    """Stores records as documents with one attribute, ``task``."""

    host = "127.0.0.1"
    port: Any = "8529"
    database = "celery"
    collection = "celery"
    username: str | None = None
    password: str | None = None
    http_protocol = "http"
    verify = False
    key_t = str

    def __init__(self, url: str | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, url=url, **kwargs)
        require(py_arango_connection, "pyArango", "ArangoDB", "arangodb")
        settings = self.app.conf.get("arangodb_backend_settings", None)
        if settings is not None and not isinstance(settings, dict):
            raise ImproperlyConfigured(NOT_A_DICT.format(settings))
        settings = settings or {}
        given = {name: settings.get(name) for name in (*OPTIONS, "http_protocol", "verify")}
        if url:
            parts = url_to_parts(url)
            database, _, collection = (parts.path or "").strip("/").partition("/")
            from_url = (
                *(parts.hostname, parts.port, database, collection),
                *(parts.username, parts.password),
            )
            given.update({name: each for name, each in zip(OPTIONS, from_url, strict=True) if each})
        for name, value in given.items():
            if value is not None:
                setattr(self, name, value)
        self.port = int(self.port)
        self.arangodb_url = f"{self.http_protocol}://{self.host}:{self.port}"
        self._connection: Any = None

    @property
    def connection(self) -> Any:
        """The connection, opened when it is first needed."""
        if self._connection is None:
            self._connection = py_arango_connection.Connection(
                arangoURL=self.arangodb_url,
                username=self.username,
                password=self.password,
                verify=self.verify,
            )
        return self._connection

    @property
    def db(self) -> Any:
        """The database."""
        return self.connection[self.database]

    @cached_property
    def expires_delta(self) -> timedelta:
        """How long records are kept."""
        return timedelta(seconds=0 if self.expires is None else self.expires)

    def _query(self, text: str, *, values: bool = False, **bound: Any) -> Any:
        options = {"rawResults": True} if values else {}
        return self.db.AQLQuery(text, bindVars={"@collection": self.collection, **bound}, **options)

    def get(self, key: Any) -> Any:
        if key is None:
            return None
        found = self._query(READ, values=True, key=key)
        return found[0] if len(found) else None

    def mget(self, keys: Iterable[Any] | None) -> Iterator[Any]:
        if keys is None:
            return
        yield from self._query(READ_MANY, values=True, keys=list(keys))

    def set(self, key: Any, value: Any) -> None:
        self._query(WRITE, key=key, value=value)

    def delete(self, key: Any) -> None:
        if key is not None:
            self._query(DELETE, key=key)

    def cleanup(self) -> None:
        """Delete the records of what ended longer ago than results are kept."""
        if self.expires:
            oldest = self.app.now() - self.expires_delta
            self._query(CLEAN_UP, checkpoint=oldest.isoformat())
