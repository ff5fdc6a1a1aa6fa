"""``cassandra://``: a row for each result, in a table of Apache Cassandra or of Astra DB.

Where that is, is said by the settings ``cassandra_*``. The table is created by the first write,
where it does not exist. A task has a row for each time that its state was written: the newest
counts.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from kombu.utils.encoding import ensure_bytes

from celery import states
from celery.exceptions import ImproperlyConfigured
from celery.utils.log import get_logger

from .base import BaseBackend
from .drivers import library, require

__all__ = ("CassandraBackend",)

logger = get_logger(__name__)

cassandra = library("cassandra")
for _part in ("auth", "cluster", "query"):
    library(f"cassandra.{_part}")

DEFAULT_PORT = 9042
DEFAULT_CONSISTENCY = "LOCAL_QUORUM"

INCOMPLETE = (
    "The Cassandra backend needs cassandra_keyspace, cassandra_table, and either cassandra_servers "
    "or cassandra_secure_bundle_path"
)
BOTH = "cassandra_servers and cassandra_secure_bundle_path are both set: only one of them can be"
NO_PROVIDER = "cassandra_auth_provider: there is no {!r} in cassandra.auth"
W_CONSISTENCY = "There is no consistency level %r in Cassandra: %s is used"

COLUMNS = "status, result, date_done, traceback, children"
CREATE = (
    "CREATE TABLE {table} (task_id text, status text, result blob, date_done timestamp, "
    "traceback blob, children blob, PRIMARY KEY ((task_id), date_done)) "
    "WITH CLUSTERING ORDER BY (date_done DESC)"
)
READ = "SELECT {columns} FROM {table} WHERE task_id=%s LIMIT 1"
WRITE = "INSERT INTO {table} (task_id, {columns}) VALUES (%s, %s, %s, %s, %s, %s){ttl}"
FORGET = "DELETE FROM {table} WHERE task_id=%s"


class CassandraBackend(BaseBackend):
    """Stores records as rows. Raises `ImproperlyConfigured` for settings that are missing.

    Several threads may use one of it.
    """

    servers: Any = None
    bundle_path: str | None = None
    supports_autoexpire = True
    supports_result_compression = True

    def __init__(
        self,
        servers: Any = None,
        keyspace: str | None = None,
        table: str | None = None,
        entry_ttl: Any = None,
        port: int | None = None,
        bundle_path: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        require(cassandra, "cassandra-driver", "Cassandra", "cassandra")
        conf = self.app.conf
        self.servers = servers or conf.get("cassandra_servers", None)
        self.bundle_path = bundle_path or conf.get("cassandra_secure_bundle_path", None)
        self.port = int(port or conf.get("cassandra_port", None) or DEFAULT_PORT)
        self.keyspace = keyspace or conf.get("cassandra_keyspace", None)
        self.table = table or conf.get("cassandra_table", None)
        self.entry_ttl = entry_ttl or conf.get("cassandra_entry_ttl", None)
        self.cassandra_options = conf.get("cassandra_options", None) or {}
        if self.servers and self.bundle_path:
            raise ImproperlyConfigured(BOTH)
        if not ((self.servers or self.bundle_path) and self.keyspace and self.table):
            raise ImproperlyConfigured(INCOMPLETE)
        self.read_consistency = self._consistency(conf.get("cassandra_read_consistency", None))
        self.write_consistency = self._consistency(conf.get("cassandra_write_consistency", None))
        self.auth_provider = self._auth_provider()
        self._cluster: Any = None
        self._session: Any = None
        self._table_created = False
        self._lock = threading.RLock()

    @staticmethod
    def _consistency(name: str | None) -> Any:
        levels = cassandra.ConsistencyLevel
        found = getattr(levels, name or DEFAULT_CONSISTENCY, None)
        if found is None:
            logger.warning(W_CONSISTENCY, name, DEFAULT_CONSISTENCY)
            found = getattr(levels, DEFAULT_CONSISTENCY)
        return found

    def _auth_provider(self) -> Any:
        name = self.app.conf.get("cassandra_auth_provider", None)
        if not name:
            return None
        provider = getattr(cassandra.auth, name, None)
        if provider is None:
            raise ImproperlyConfigured(NO_PROVIDER.format(name))
        return provider(**(self.app.conf.get("cassandra_auth_kwargs", None) or {}))

    # -- the connection ----------------------------------------------------------------------

    def _is_ready(self, write: bool) -> bool:
        return self._session is not None and (self._table_created or not write)

    def _get_connection(self, write: bool = False) -> None:
        """Connect, and make the table before something is written.

        No other thread sees the session before both are done.
        """
        if self._is_ready(write):
            return
        with self._lock:
            if self._is_ready(write):
                return
            session = self._session or self._connect()
            try:
                if write:
                    self._create_table(session)
            finally:
                self._session = session  # it is a good one, whatever became of the table

    def _connect(self) -> Any:
        options = {"port": self.port, "auth_provider": self.auth_provider, **self.cassandra_options}
        make = cassandra.cluster.Cluster
        if self.bundle_path:
            cluster = make(cloud={"secure_connect_bundle": self.bundle_path}, **options)
        else:
            cluster = make(self.servers, **options)
        try:
            session = cluster.connect(self.keyspace)
        except Exception:
            cluster.shutdown()
            raise
        self._cluster = cluster
        return session

    def _statement(self, text: str, consistency: Any) -> Any:
        ttl = f" USING TTL {self.entry_ttl}" if self.entry_ttl else ""
        made = cassandra.query.SimpleStatement(
            text.format(table=self.table, columns=COLUMNS, ttl=ttl)
        )
        made.consistency_level = consistency
        return made

    def _create_table(self, session: Any) -> None:
        """Not with ``IF NOT EXISTS``, which costs a round of agreement: mostly it is there."""
        with contextlib.suppress(cassandra.AlreadyExists):
            session.execute(self._statement(CREATE, self.write_consistency))
        self._table_created = True

    def close(self) -> None:
        with self._lock:
            cluster, self._cluster, self._session = self._cluster, None, None
        if cluster is not None:
            cluster.shutdown()

    # -- records -----------------------------------------------------------------------------

    def _row(self, task_id: str) -> Any:
        statement = self._statement(READ, self.read_consistency)
        return self._session.execute(statement, (task_id,)).one()

    def _store_result(
        self,
        task_id: str,
        result: Any,
        state: str | None,
        traceback: Any = None,
        request: Any = None,
        **kwargs: Any,
    ) -> None:
        self._get_connection(write=True)
        # The state alone is looked at: another worker's payload may be unreadable here.
        row = self._row(task_id)
        if row and row[0] == states.SUCCESS:
            return
        payloads = (result, traceback, self.current_task_children(request))
        value, trace, children = (ensure_bytes(self.encode(each)) for each in payloads)
        self._session.execute(
            self._statement(WRITE, self.write_consistency),
            (task_id, state, value, self.app.now(), trace, children),
        )

    def _get_task_meta_for(self, task_id: str) -> dict[str, Any]:
        self._get_connection()
        row = self._row(task_id)
        if not row:
            return {"status": states.PENDING, "result": None}
        status, result, date_done, traceback, children = row
        return self.meta_from_decoded(
            {
                "task_id": task_id,
                "status": status,
                "result": self.decode(result),
                "date_done": date_done,
                "traceback": self.decode(traceback),
                "children": self.decode(children),
            }
        )

    def _forget(self, task_id: str) -> None:
        self._get_connection(write=True)
        self._session.execute(self._statement(FORGET, self.write_consistency), (task_id,))

    # -- as a value --------------------------------------------------------------------------

    def as_uri(self, include_password: bool = True) -> str:
        return "cassandra://"

    def __reduce__(self, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        given = {"servers": self.servers, "keyspace": self.keyspace, "table": self.table}
        return super().__reduce__(args, {**given, **(kwargs or {})})
