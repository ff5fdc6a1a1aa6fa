"""``cosmosdbsql://:key@account.documents.azure.com``: a document for each result, in Azure's Cosmos
DB, by its SQL interface. Database and collection are created where they do not exist."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kombu.utils.encoding import bytes_to_str
from kombu.utils.objects import cached_property
from kombu.utils.url import url_to_parts

from celery.exceptions import ImproperlyConfigured

from .base import KeyValueStoreBackend
from .drivers import library, named, require

__all__ = ("CosmosDBSQLBackend",)

pydocumentdb = library("pydocumentdb")
(DocumentClient,) = named("pydocumentdb.document_client", "DocumentClient")
(HTTPFailure,) = named("pydocumentdb.errors", "HTTPFailure")
(RetryOptions,) = named("pydocumentdb.retry_options", "RetryOptions")
ConnectionPolicy, ConsistencyLevel, PartitionKind = named(
    "pydocumentdb.documents", "ConnectionPolicy", "ConsistencyLevel", "PartitionKind"
)

ERROR_NOT_FOUND, ERROR_EXISTS = 404, 409
TLS_PORT = 443

INCOMPLETE = "Invalid URL: cosmosdbsql://:key@host needs a key and a host"
NO_LEVEL = "cosmosdbsql_consistency_level: there is no {!r}"


class CosmosDBSQLBackend(KeyValueStoreBackend):
    """Stores records as documents with one field, ``value``; their id is the partition key."""

    def __init__(
        self,
        url: str | None = None,
        database_name: str | None = None,
        collection_name: str | None = None,
        consistency_level: str | None = None,
        max_retry_attempts: int | None = None,
        max_retry_wait_time: int | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, url=url, **kwargs)
        require(pydocumentdb, "pydocumentdb", "Cosmos DB", "cosmosdbsql")
        conf = self.app.conf
        self._endpoint, self._key = self._parse_url(url)
        self._database_name = database_name or conf.cosmosdbsql_database_name
        self._collection_name = collection_name or conf.cosmosdbsql_collection_name
        level = consistency_level or conf.cosmosdbsql_consistency_level
        self._consistency_level = getattr(ConsistencyLevel, level, None)
        if self._consistency_level is None:
            raise ImproperlyConfigured(NO_LEVEL.format(level))
        self._max_retry_attempts = max_retry_attempts or conf.cosmosdbsql_max_retry_attempts
        self._max_retry_wait_time = max_retry_wait_time or conf.cosmosdbsql_max_retry_wait_time

    @classmethod
    def _parse_url(cls, url: str | None) -> tuple[str, str]:
        parts = url_to_parts(url or "")
        if not parts.hostname or not parts.password:
            raise ImproperlyConfigured(INCOMPLETE)
        port = parts.port or TLS_PORT
        scheme = "https" if port == TLS_PORT else "http"
        return f"{scheme}://{parts.hostname}:{port}", parts.password

    # -- the client --------------------------------------------------------------------------

    @cached_property
    def _client(self) -> Any:
        """The client; database and collection are there once it was asked for."""
        policy = ConnectionPolicy()
        policy.RetryOptions = RetryOptions(
            max_retry_attempt_count=self._max_retry_attempts,
            max_wait_time_in_seconds=self._max_retry_wait_time,
        )
        client = DocumentClient(
            self._endpoint,
            {"masterKey": self._key},
            connection_policy=policy,
            consistency_level=self._consistency_level,
        )
        partition = {"paths": ["/id"], "kind": PartitionKind.Hash}
        collection = {"id": self._collection_name, "partitionKey": partition}
        self._unless_there(client.CreateDatabase, {"id": self._database_name})
        self._unless_there(client.CreateCollection, self._database_link, collection)
        return client

    @staticmethod
    def _unless_there(create: Any, *what: Any) -> None:
        try:
            create(*what)
        except HTTPFailure as error:
            if error.status_code != ERROR_EXISTS:
                raise

    @property
    def _database_link(self) -> str:
        return f"dbs/{self._database_name}"

    @property
    def _collection_link(self) -> str:
        return f"{self._database_link}/colls/{self._collection_name}"

    def _get_document_link(self, key: str) -> str:
        return f"{self._collection_link}/docs/{key}"

    @classmethod
    def _get_partition_key(cls, key: str | None) -> dict[str, str]:
        if not key or key.isspace():
            raise ValueError(f"a key of Cosmos DB must not be empty, got {key!r}")
        return {"partitionKey": key}

    # -- keys and payloads -------------------------------------------------------------------

    def get(self, key: Any) -> Any:
        name = bytes_to_str(key)
        try:
            document = self._client.ReadDocument(
                self._get_document_link(name), self._get_partition_key(name)
            )
        except HTTPFailure as error:
            if error.status_code != ERROR_NOT_FOUND:
                raise
            return None
        return document.get("value")

    def mget(self, keys: Iterable[Any]) -> list[Any]:
        return [self.get(key) for key in keys]

    def set(self, key: Any, value: Any) -> None:
        name = bytes_to_str(key)
        self._client.UpsertDocument(
            self._collection_link, {"id": name, "value": value}, self._get_partition_key(name)
        )

    def delete(self, key: Any) -> None:
        name = bytes_to_str(key)
        try:
            self._client.DeleteDocument(
                self._get_document_link(name), self._get_partition_key(name)
            )
        except HTTPFailure as error:
            if error.status_code != ERROR_NOT_FOUND:
                raise
