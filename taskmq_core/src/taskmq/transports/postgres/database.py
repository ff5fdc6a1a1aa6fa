"""The connections to one database: opened when needed, used one call at a time, closed when broken.

A call is one statement in autocommit mode: one round trip, one transaction. No state is left in a
session, so that a pooler may stand in between. A pool with threads of its own would hide why a
connection cannot be had, and keep callers waiting for it; see docs/adr.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any, TypeVar, cast

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

from taskmq.errors import SchemaMismatch, TransportUnavailable
from taskmq.patience import left

from . import fork, schema
from .errors import ONCE_MORE_ALONE, is_conflict, spoils_connection, translate
from .options import Options
from .statements import Rows, Statements, Values

__all__ = ["Connection", "Database", "Rows"]

R = TypeVar("R")

ATTEMPTS = 8
"""How often a transaction that stood in another's way is repeated."""
PAUSE = 0.005
SECONDS_TO_CANCEL = 1.0
SECONDS_TO_MAKE = 60.0
"""For a schema that is missing, whoever waits for it."""


class Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection that waits for an answer no longer than its patience, in seconds."""

    patience = 5.0
    statements: Statements
    """Which nearly all goes by; what is left to the driver's cursors is the schema and LISTEN."""

    def wait(self, gen: PQGen[R], *how: Any, **else_: Any) -> R:
        return super().wait(_bounded(gen, self.patience), *how, **else_)


def _bounded(gen: PQGen[R], patience: float) -> PQGen[R]:
    """The same conversation with the server, given up when its patience is over. Whoever waits
    for the socket looks in several times a second, with nothing."""
    deadline = time.monotonic() + patience
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and time.monotonic() >= deadline:
                raise psycopg.OperationalError(f"no answer within {patience:g} seconds")
            wanted = gen.send(ready)
    except StopIteration as end:
        return cast("R", end.value)


def connect(options: Options) -> Connection:
    """A new connection. Raises ``psycopg.Error``."""
    # Each host has its share of what is left; libpq counts whole seconds, and no less than two.
    connection = Connection.connect(
        options.conninfo,
        connect_timeout=max(2, int(left(options.connect_timeout * options.hosts) / options.hosts)),
        autocommit=True,
        prepare_threshold=None,
    )
    connection.patience = options.timeout
    connection.statements = Statements(connection, prepare=not options.pooler)
    return connection


class Database:
    """The connections of this process to one store. Safe for threads and forks."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.round_trips = 0
        """How many statements were sent so far."""
        self._closed = False
        self._named: dict[str, str] = {}
        self._begin()
        fork.watch(self)

    def _begin(self) -> None:
        self._idle: list[Connection] = []
        self._finalizer = weakref.finalize(self, _close_all, self._idle)
        # A permit for each connection that may be in use. A semaphore takes ten calls of Python.
        self._free: SimpleQueue[None] = SimpleQueue()
        for _ in range(self.options.connections):
            self._free.put(None)
        self._checking = threading.Lock()
        self._checked = False
        self.pids: set[int] = set()
        """The server's names for our sessions."""

    def named(self, statement: str) -> str:
        """A statement that was written for schema ``taskmq``, for ours."""
        if statement not in self._named:
            self._named[statement] = schema.for_schema(statement, self.options.schema)
        return self._named[statement]

    def call(self, query: str, values: Values = (), *, patience: float | None = None) -> Rows:
        """The rows of one statement. It is repeated if it stood in another transaction's way.

        Raises a `taskmq.errors.TransportError`; then nothing has changed, or nobody knows
        (the connection was lost).
        """
        statement = self.named(query)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._with_connection(_execute, statement, values, patience)
            except psycopg.Error as error:
                if not is_conflict(error) or attempt == ATTEMPTS:
                    raise translate(error, self.options) from error
            time.sleep(random.random() * PAUSE * attempt)
        raise AssertionError("unreachable")

    def call_beside(
        self, query: str, values: Callable[[bool], Sequence[object]], **how: float
    ) -> Rows:
        """The same for a function that runs beside others, or alone if it finds that it must:
        ``values(alone)`` gives its values."""
        try:
            return self.call(query, values(False), **how)
        except TransportUnavailable:
            raise
        except Exception as error:
            cause = error.__cause__
            if isinstance(cause, psycopg.Error) and cause.sqlstate == ONCE_MORE_ALONE:
                return self.call(query, values(True), **how)
            raise

    def prepare(self) -> None:
        """See to it that the schema is there. Raises a `taskmq.errors.TransportError`."""
        if self._checked:
            return
        try:
            self._with_connection(lambda connection: None)
        except psycopg.Error as error:
            raise translate(error, self.options) from error

    def close(self) -> None:
        """Close the connections. Closing twice is allowed."""
        self._closed = True
        self._finalizer()

    def _with_connection(self, work: Callable[..., R], *values: object) -> R:
        free = self._free
        try:
            free.get(timeout=left(self.options.timeout))
        except Empty:
            raise TransportUnavailable(
                f"{self.options.where}: all {self.options.connections} connections were in use for "
                f"{self.options.timeout:g} s; allow more with ?connections="
            ) from None
        try:
            connection = self._take()
            try:
                self.round_trips += 1
                result = work(connection, *values)
            except BaseException as error:
                if spoils_connection(error):
                    self._discard(connection)
                else:
                    self._give_back(connection)
                raise
            self._give_back(connection)
            return result
        finally:
            free.put(None)

    def _take(self) -> Connection:
        if self._closed:
            raise TransportUnavailable(f"this transport on {self.options.where} is closed")
        while self._idle:
            try:
                connection = self._idle.pop()
            except IndexError:  # another thread has the last one
                break
            if connection.statements.is_quiet():
                return connection
            self._discard(connection)
        connection = connect(self.options)
        try:
            self._check(connection)
        except BaseException:
            connection.close()
            raise
        self.pids.add(connection.info.backend_pid)
        return connection

    def _check(self, connection: Connection) -> None:
        with self._checking:
            if self._checked:
                return
            connection.patience = left(self.options.timeout)
            try:
                schema.check(connection, replace(self.options, create=False))
            except SchemaMismatch:
                connection.patience = max(SECONDS_TO_MAKE, self.options.timeout)
                schema.check(connection, self.options)
            connection.patience = self.options.timeout
            self._checked = True

    def _give_back(self, connection: Connection) -> None:
        if self._closed or connection.closed:
            self._discard(connection)
        else:
            self._idle.append(connection)

    def _discard(self, connection: Connection) -> None:
        with contextlib.suppress(psycopg.Error):
            self.pids.discard(connection.info.backend_pid)
            if connection.pgconn.transaction_status == TransactionStatus.ACTIVE:
                # Nobody waits for its answer any more, but others may wait for its locks. Who
                # has waited long enough does not wait for this too.
                threading.Thread(
                    target=_cancel, args=(connection,), name="taskmq-cancel", daemon=True
                ).start()
                return
        connection.close()

    # -- fork.ForkAware ----------------------------------------------------------------------

    def after_fork_in_child(self) -> None:
        self._finalizer.detach()  # a goodbye here would end the parent's sessions
        _abandoned.append(self._idle)
        self._begin()


_abandoned: list[list[Connection]] = []
"""Connections of a parent process, in its child."""


def _cancel(connection: Connection) -> None:
    with contextlib.suppress(psycopg.Error):
        connection.cancel_safe(timeout=SECONDS_TO_CANCEL)
    connection.close()


def _close_all(idle: list[Connection]) -> None:
    while idle:
        idle.pop().close()


def _execute(connection: Connection, query: str, values: Values, patience: float | None) -> Rows:
    most = connection.patience if patience is None else patience
    return connection.statements.run(query, values, left(most))
