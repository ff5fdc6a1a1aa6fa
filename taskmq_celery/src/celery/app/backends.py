"""From the ``result_backend`` setting to a backend.

A backend is named by an alias (``redis``), a path (``proj.backends:Mine``) or the URL of one:
``redis://host/1``, ``db+postgresql://…``, ``proj.backends.Mine+scheme://…``. Other distributions
give their own names through the entry points ``celery.result_backends``.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from inspect import ismodule
from typing import TYPE_CHECKING, Any

from kombu.utils.imports import symbol_by_name

from celery._state import current_app
from celery.exceptions import ImproperlyConfigured
from taskmq_celery.config import is_native, is_wanted

from .configured import properly_configured

if TYPE_CHECKING:
    from celery.backends.base import Backend
    from celery.loaders.base import BaseLoader

    from .base import Celery

__all__ = (
    "by_name",
    "by_url",
)

UNKNOWN_BACKEND = "Unknown result backend: {0!r}.  Did you spell that correctly? ({1!r})"

BACKEND_ALIASES: dict[str, str] = {
    "arangodb": "celery.backends.arangodb:ArangoDbBackend",
    "azureblockblob": "celery.backends.azureblockblob:AzureBlockBlobBackend",
    "cache": "celery.backends.cache:CacheBackend",
    "cassandra": "celery.backends.cassandra:CassandraBackend",
    "consul": "celery.backends.consul:ConsulBackend",
    "cosmosdbsql": "celery.backends.cosmosdbsql:CosmosDBSQLBackend",
    "couchbase": "celery.backends.couchbase:CouchbaseBackend",
    "couchdb": "celery.backends.couchdb:CouchBackend",
    "database": "celery.backends.database:DatabaseBackend",
    "db": "celery.backends.database:DatabaseBackend",
    "disabled": "celery.backends.base:DisabledBackend",
    "dynamodb": "celery.backends.dynamodb:DynamoDBBackend",
    "elasticsearch": "celery.backends.elasticsearch:ElasticsearchBackend",
    "file": "celery.backends.filesystem:FilesystemBackend",
    "gs": "celery.backends.gcs:GCSBackend",
    "mongodb": "celery.backends.mongodb:MongoBackend",
    "redis": "celery.backends.redis:RedisBackend",
    "rediss": "celery.backends.redis:RedisBackend",
    "rpc": "celery.backends.rpc:RPCBackend",
    "s3": "celery.backends.s3:S3Backend",
    "sentinel": "celery.backends.redis:SentinelBackend",
}

NATIVE = "celery.backends.native:NativeBackend"


def by_name(
    backend: Any = None,
    loader: BaseLoader | None = None,
    extension_namespace: str = "celery.result_backends",
) -> Any:
    """The backend class of a name; a class as it is.

    Raises `ImproperlyConfigured` for what is no backend, ``ImportError`` for what is not there.
    """
    backend = backend or "disabled"
    loader = loader or current_app.loader
    aliases = {
        **BACKEND_ALIASES,
        **loader.override_backends,
        **{one.name: one.value for one in entry_points(group=extension_namespace)},
    }
    try:
        found = symbol_by_name(backend, aliases)
    except ValueError as error:
        raise ImproperlyConfigured(UNKNOWN_BACKEND.format(backend, error)) from error
    if ismodule(found):
        raise ImproperlyConfigured(
            UNKNOWN_BACKEND.format(backend, "is a Python module, not a backend class.")
        )
    return found


def by_url(backend: Any = None, loader: BaseLoader | None = None) -> tuple[Any, str | None]:
    """The backend class of a URL or a name, and the URL that the class is to be given."""
    url = None
    if isinstance(backend, str) and "://" in backend:
        url = backend
        scheme, _, rest = url.partition("://")
        backend, plus, inner = scheme.partition("+")
        if plus:
            url = f"{inner}://{rest}"
    return by_name(backend, loader), url


def backend_for(app: Celery, spec: Any) -> Backend:
    """The backend that a setting means, made for ``app``. Raises as `by_name` does.

    The engine's own URLs (``sqlite:///…``, ``memory://``, ``postgresql://…``) mean its records.
    """
    with properly_configured():
        wanted = is_wanted(spec)
    if not wanted:
        spec = None
    url: str | None
    if isinstance(spec, str) and is_native(spec):
        kind, url = symbol_by_name(NATIVE), spec
    else:
        try:
            kind, url = by_url(spec, app.loader)
        except ImportError as error:
            known = ", ".join(sorted(BACKEND_ALIASES))
            raise ImproperlyConfigured(
                f"result backend {spec!r} is not there: {error} (there are: {known})"
            ) from error
    made: Backend = kind(app=app, url=url)
    return made
