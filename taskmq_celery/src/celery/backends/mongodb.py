"""``mongodb://host/database``: results in MongoDB."""

from __future__ import annotations

from datetime import timedelta, timezone
from functools import cached_property
from importlib import import_module
from typing import Any

from kombu.exceptions import EncodeError
from kombu.utils.url import maybe_sanitize_url

from celery import states
from celery.exceptions import ImproperlyConfigured
from celery.result import result_from_tuple

from .base import BaseBackend


def _names(module: str, *names: str) -> tuple[Any, ...]:
    """What pymongo has under these names; exceptions that nobody raises where it is missing."""
    try:
        found = import_module(module)
    except ImportError:
        return tuple(type(name, (Exception,), {}) for name in names)
    return tuple(getattr(found, name) for name in names)


def _pymongo() -> Any:
    try:
        return import_module("pymongo")
    except ImportError:
        return None


pymongo = _pymongo()
(Binary,) = _names("bson.binary", "Binary")
(InvalidDocument,) = _names("bson.errors", "InvalidDocument")
(DuplicateKeyError,) = _names("pymongo.errors", "DuplicateKeyError")

__all__ = ("MongoBackend",)

BINARY_CODECS = frozenset({"pickle", "msgpack"})
EXTENDED = ("name", "args", "kwargs", "worker", "retries", "queue")
SCHEME = "mongodb"


class MongoBackend(BaseBackend):
    """Stores records as documents, under the id of the task."""

    mongo_host: Any = None
    host: Any = "localhost"
    port = 27017
    user: str | None = None
    password: str | None = None
    database_name = "celery"
    taskmeta_collection = "celery_taskmeta"
    groupmeta_collection = "celery_groupmeta"
    max_pool_size = 10
    options: Any = None

    supports_autoexpire = False
    supports_result_compression = True

    _connection: Any = None

    def __init__(self, app: Any = None, **kwargs: Any) -> None:
        self.options = {}
        super().__init__(app, **kwargs)
        if not pymongo:
            raise ImproperlyConfigured(
                "You need to install the pymongo library to use the MongoDB backend."
            )
        if self.url:
            self._take_url(self._ensure_mongodb_uri_compliance(self.url))
        settings = self.app.conf.mongodb_backend_settings
        if settings is not None:
            self._take_settings(settings)

    def _take_url(self, url: str) -> None:
        self.url = url
        parsed = pymongo.uri_parser.parse_uri(url)
        self.user, self.password = parsed["username"], parsed["password"]
        self.mongo_host = [f"{host}:{port}" for host, port in parsed["nodelist"]]
        if parsed["database"]:
            self.database_name = parsed["database"]
        self.options = {**self._prepare_client_options(), **dict(parsed["options"])}

    def _take_settings(self, settings: Any) -> None:
        if not isinstance(settings, dict):
            raise ImproperlyConfigured("MongoDB backend settings should be grouped in a dict")
        config = dict(settings)
        if "host" in config or "port" in config:
            self.mongo_host = None
        for option, attribute in (
            ("host", "host"),
            ("port", "port"),
            ("mongo_host", "mongo_host"),
            ("user", "user"),
            ("password", "password"),
            ("database", "database_name"),
            ("taskmeta_collection", "taskmeta_collection"),
            ("groupmeta_collection", "groupmeta_collection"),
            ("max_pool_size", "max_pool_size"),
        ):
            value = config.pop(option, getattr(self, attribute))
            setattr(self, attribute, int(value) if option == "port" else value)
        self.options = {**self.options, **config.pop("options", {}), **config}

    @staticmethod
    def _ensure_mongodb_uri_compliance(url: str) -> str:
        """A URL as pymongo wants it: with its scheme, and a host."""
        if not url.startswith(SCHEME):
            url = f"{SCHEME}+{url}"
        return f"{url}localhost" if url == f"{SCHEME}://" else url

    def _prepare_client_options(self) -> dict[str, Any]:
        return {"maxPoolSize": self.max_pool_size}

    # -- the connection ----------------------------------------------------------------------

    def _get_connection(self) -> Any:
        """The client, made when it is first needed."""
        if self._connection is None:
            host = self.mongo_host or self.host
            if isinstance(host, str) and not host.startswith(f"{SCHEME}://"):
                host = f"{SCHEME}://{host}:{self.port}"
            options = {**self._prepare_client_options(), **self.options}
            if self.user:
                options["username"] = self.user
            if self.password:
                options["password"] = self.password
            self._connection = pymongo.MongoClient(host=host, **options)
        return self._connection

    def _get_database(self) -> Any:
        return self._get_connection()[self.database_name]

    @cached_property
    def database(self) -> Any:
        """The database."""
        return self._get_database()

    @cached_property
    def collection(self) -> Any:
        """The records of tasks; old ones are found by their index."""
        found = self.database[self.taskmeta_collection]
        found.create_index("date_done", background=True)
        return found

    @cached_property
    def group_collection(self) -> Any:
        """The records of groups."""
        found = self.database[self.groupmeta_collection]
        found.create_index("date_done", background=True)
        return found

    @cached_property
    def expires_delta(self) -> timedelta:
        """How long records are kept."""
        return timedelta(seconds=self.expires)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
        for name in ("database", "collection", "group_collection"):
            vars(self).pop(name, None)

    # -- encoding ----------------------------------------------------------------------------

    def encode(self, data: Any) -> Any:
        """With ``bson`` as result serializer MongoDB encodes values itself."""
        if self.serializer == "bson":
            return data
        payload = super().encode(data)
        if self.serializer in BINARY_CODECS or isinstance(payload, bytes):
            return Binary(payload)
        return payload

    def decode(self, data: Any) -> Any:
        return data if self.serializer == "bson" else super().decode(data)

    # -- records -----------------------------------------------------------------------------

    def _store_result(
        self,
        task_id: str,
        result: Any,
        state: str | None,
        traceback: Any = None,
        request: Any = None,
        **kwargs: Any,
    ) -> Any:
        meta = self._get_result_meta(
            self.encode(result), state, traceback, request, format_date=False
        )
        meta["_id"] = task_id
        # A success does not match, so that another document of that id is tried: that fails, as it
        # does where two programs write the first record at once. The second try tells them apart.
        wanted = {"_id": task_id, "status": {"$ne": states.SUCCESS}}
        for _ in range(2):
            try:
                self.collection.replace_one(wanted, meta, upsert=True)
                break
            except DuplicateKeyError:
                continue
            except InvalidDocument as error:
                raise EncodeError(error) from error
        return result

    def _get_task_meta_for(self, task_id: str) -> dict[str, Any]:
        found = self.collection.find_one({"_id": task_id})
        if not found:
            return {"status": states.PENDING, "result": None}
        meta = {
            "task_id": found["_id"],
            "status": found["status"],
            "result": self.decode(found["result"]),
            "date_done": found["date_done"],
            "traceback": found["traceback"],
            "children": found["children"],
        }
        if self.app.conf.find_value_for_key("extended", "result"):
            meta.update({name: found.get(name) for name in EXTENDED})
        return self.meta_from_decoded(meta)

    def task_result_exists(self, task_id: str) -> bool:
        return self.collection.find_one({"_id": task_id}) is not None

    def _forget(self, task_id: str) -> None:
        # Acknowledged, so that whoever asks next does not find it.
        self.collection.delete_one({"_id": task_id})

    def _save_group(self, group_id: str, result: Any) -> Any:
        meta = {
            "_id": group_id,
            "result": self.encode([each.id for each in result]),
            "date_done": self.app.now(),
        }
        self.group_collection.replace_one({"_id": group_id}, meta, upsert=True)
        return result

    def _restore_group(self, group_id: str) -> Any:
        found = self.group_collection.find_one({"_id": group_id})
        if not found:
            return None
        stored = self.decode(found["result"])
        if stored and isinstance(stored[0], str):
            members = [self.app.AsyncResult(task_id) for task_id in stored]
            stored = self.app.GroupResult(group_id, members)
        elif isinstance(stored, (list, tuple)) and stored:
            stored = result_from_tuple(stored, self.app)
        else:
            stored = self.app.GroupResult(group_id, [])
        return {"task_id": found["_id"], "result": stored, "date_done": found["date_done"]}

    def _delete_group(self, group_id: str) -> None:
        self.group_collection.delete_one({"_id": group_id})

    def cleanup(self) -> None:
        """Delete the records that are older than results are kept."""
        if not self.expires:
            return
        # In UTC: a day before is another time of day where clocks have changed.
        oldest = self.app.now().astimezone(timezone.utc) - self.expires_delta
        for collection in (self.collection, self.group_collection):
            collection.delete_many({"date_done": {"$lt": oldest}})

    # -- as a value --------------------------------------------------------------------------

    def as_uri(self, include_password: bool = False) -> str:
        if not self.url:
            return f"{SCHEME}://"
        if include_password:
            return self.url
        if "," not in self.url:
            return str(maybe_sanitize_url(self.url).rstrip("/"))
        first, _, rest = self.url.partition(",")
        return f"{maybe_sanitize_url(first)},{rest}"

    def __reduce__(self, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return super().__reduce__(
            args, {**(kwargs or {}), "expires": self.expires, "url": self.url}
        )
