"""``elasticsearch://user:password@host:9200/index``: a document for each result, in Elasticsearch.

``elasticsearch+https://…`` for TLS. A document is created, or updated as it was read: of two that
write at once one hears of it, and looks again at what is there.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from kombu.utils.encoding import bytes_to_str
from kombu.utils.url import url_to_parts

from celery import states

from .base import KeyValueStoreBackend
from .drivers import library, named, require

__all__ = ("ElasticsearchBackend",)

elasticsearch = library("elasticsearch")

CONFLICT, TOO_MANY = 409, 429
ENCODED = ("result", "traceback")
"""What is text even in records that are stored as JSON."""


def _exceptions(*names: str) -> Any:
    """Those of these that the client has, as a tuple."""
    found = named("elasticsearch.exceptions", *names)
    return tuple(each for each in found if each is not None)


NOT_FOUND = _exceptions("NotFoundError")
CONFLICTS = _exceptions("ConflictError")
ERRORS = _exceptions("ApiError", "TransportError")


class Overtaken(Exception):  # said of a write
    """A write changed nothing: another one came first. It may be tried again."""


class _Client:
    """A client of Elasticsearch 8 and later, called as before: ``body`` and ``params``, and types
    of documents, which no longer exist."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def get(self, *, doc_type: Any = None, **kwargs: Any) -> Any:
        return self._client.get(**kwargs)

    def delete(self, *, doc_type: Any = None, **kwargs: Any) -> Any:
        return self._client.delete(**kwargs)

    def index(self, *, body: Any, params: Any = None, doc_type: Any = None, **kwargs: Any) -> Any:
        return self._client.index(document=body, **(params or {}), **kwargs)

    def update(self, *, body: Any, params: Any = None, doc_type: Any = None, **kwargs: Any) -> Any:
        return self._client.update(**body, **(params or {}), **kwargs)


class ElasticsearchBackend(KeyValueStoreBackend):
    """Stores records as documents."""

    index = "celery"
    doc_type: str | None = None
    """The type of documents, for servers before version 8."""
    scheme = "http"
    host = "localhost"
    port = 9200
    username: str | None = None
    password: str | None = None
    es_retry_on_timeout = False
    es_timeout: float = 10
    es_max_retries = 3

    def __init__(self, url: str | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, url=url, **kwargs)
        require(elasticsearch, "elasticsearch", "Elasticsearch", "elasticsearch")
        if url:
            self._take_url(url)
        for name in ("retry_on_timeout", "timeout", "max_retries"):
            configured = self.app.conf.get(f"elasticsearch_{name}", None)
            if configured is not None:
                setattr(self, f"es_{name}", configured)
        self.es_save_meta_as_text = self.app.conf.get("elasticsearch_save_meta_as_text", True)
        self._server: Any = None

    def _take_url(self, url: str) -> None:
        parts = url_to_parts(url)
        if parts.scheme and parts.scheme != "elasticsearch":
            self.scheme = parts.scheme
        self.host = parts.hostname or self.host
        self.port = parts.port or self.port
        self.username, self.password = parts.username, parts.password
        index, _, doc_type = (parts.path or "").strip("/").partition("/")
        self.index = index or self.index
        self.doc_type = doc_type or self.doc_type

    @property
    def server(self) -> Any:
        """The client, made when it is first needed."""
        if self._server is None:
            self._server = self._get_server()
        return self._server

    def _get_server(self) -> Any:
        address = f"{self.scheme}://{self.host}:{self.port}"
        login = (self.username, self.password) if self.username else None
        shared = {"max_retries": self.es_max_retries, "retry_on_timeout": self.es_retry_on_timeout}
        make = elasticsearch.Elasticsearch
        try:
            return make(address, http_auth=login, timeout=self.es_timeout, **shared)
        except TypeError:  # from version 9 on these two have other names
            made = make(address, basic_auth=login, request_timeout=self.es_timeout, **shared)
        return _Client(made)

    def exception_safe_to_retry(self, exc: BaseException) -> bool:
        """Conflicts, connections that are lost, and servers that are too busy."""
        if isinstance(exc, (Overtaken, *CONFLICTS)):
            return True
        if not isinstance(exc, ERRORS):
            return False
        status = getattr(exc, "status_code", None)
        return not isinstance(status, int) or status in (CONFLICT, TOO_MANY) or status >= 500

    # -- documents ---------------------------------------------------------------------------

    def _place(self, key: Any) -> dict[str, Any]:
        place = {"id": bytes_to_str(key), "index": self.index}
        return {**place, "doc_type": self.doc_type} if self.doc_type else place

    def _get(self, key: Any) -> Any:
        return self.server.get(**self._place(key))

    def _index(self, id: Any, body: Any, **kwargs: Any) -> Any:
        """Create a document. A conflict is an error of the client's: there is one already."""
        document = {bytes_to_str(name): value for name, value in body.items()}
        return self.server.index(
            **self._place(id), body=document, params={"op_type": "create"}, **kwargs
        )

    def _update(self, id: Any, body: Any, state: str | None, **kwargs: Any) -> Any:
        """Put a payload in place of another one, if that does not say how the task ended.

        Raises `Overtaken` where nothing was changed.
        """
        try:
            there = self._get(id)
        except NOT_FOUND:
            there = {}
        if not there.get("found"):
            return self._index(id, body, **kwargs)
        stored = self._state_of(there)
        if stored == states.SUCCESS or (
            stored in states.READY_STATES and state is not None and state in states.UNREADY_STATES
        ):
            return None
        document = {bytes_to_str(name): value for name, value in body.items()}
        version = {"if_primary_term": there["_primary_term"], "if_seq_no": there["_seq_no"]}
        answer = self.server.update(
            **self._place(id), body={"doc": document}, params=version, **kwargs
        )
        if answer["result"] == "noop":
            raise Overtaken(f"the document {bytes_to_str(id)} was not changed")
        return answer

    def _state_of(self, document: Any) -> str | None:
        """The state that a document tells of; ``None`` where it tells of none, or is damaged."""
        try:
            state: str = self.decode_result(document["_source"]["result"])["status"]
        except Exception:
            return None
        return state

    # -- keys and payloads -------------------------------------------------------------------

    def get(self, key: Any) -> Any:
        try:
            found = self._get(key)
            return found["_source"]["result"] if found["found"] else None
        except (*NOT_FOUND, TypeError, KeyError):
            return None

    def mget(self, keys: Iterable[Any]) -> list[Any]:
        return [self.get(key) for key in keys]

    def set(self, key: Any, value: Any) -> Any:
        return self._set_with_state(key, value, None)

    def _set_with_state(self, key: Any, value: Any, state: Any) -> Any:
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        body = {"result": value, "@timestamp": now.replace("+00:00", "Z")}
        try:
            self._index(key, body)
        except CONFLICTS:
            self._update(key, body, state)

    def delete(self, key: Any) -> None:
        with contextlib.suppress(*NOT_FOUND):
            self.server.delete(**self._place(key))

    # -- encoding ----------------------------------------------------------------------------

    def encode(self, data: Any) -> Any:
        """With ``elasticsearch_save_meta_as_text = False`` a record stays an object, of which the
        value and the traceback become text, in place."""
        if self.es_save_meta_as_text or not isinstance(data, dict):
            return super().encode(data)
        for name in ENCODED:
            if data.get(name) is not None:
                data[name] = self._encode(data[name])[2]
        return data

    def decode(self, payload: Any) -> Any:
        if not isinstance(payload, dict):
            return super().decode(payload)
        for name in ENCODED:
            if payload.get(name) is not None:
                payload[name] = super().decode(payload[name])
        return payload
