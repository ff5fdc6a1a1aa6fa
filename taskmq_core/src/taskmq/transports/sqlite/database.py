"""The connections to one file: one that writes, one that reads, and what threads, forks and
failures do to them.

Reads have a connection of their own, so that they never wait for a transaction of this process; in
SQLite's write-ahead log they do not wait for those of others either.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from taskmq.clock import Clock
from taskmq.errors import ConfigError, TransportError, TransportUnavailable

from . import fork, schema
from .errors import is_busy, spoils_connection, translate
from .options import Options

__all__ = ["Database"]

P = ParamSpec("P")
R = TypeVar("R")
Work = Callable[Concatenate[sqlite3.Connection, P], R]

CACHED_STATEMENTS = 256
SYNC_BYTES = 8 << 20
"""How much is written to the log between two syncs of the file."""
LOG_LIMIT_BYTES = 32 << 20
SETTINGS = (
    "PRAGMA cache_size = -8000",  # KiB
    "PRAGMA temp_store = MEMORY",
    f"PRAGMA journal_size_limit = {LOG_LIMIT_BYTES}",  # it is cut to that when it begins anew
)
FIRST_PAUSE, LONGEST_PAUSE = 0.000_1, 0.001
SECONDS_BETWEEN_FILE_CHECKS = 1.0
SECONDS_FOR_OTHER_THREADS = 10.0
MILLISECONDS_FOR_READERS = 500

_abandoned: list[sqlite3.Connection] = []
"""Connections of a parent process in a child that was forked in C. Closing one, as the garbage
collector would, releases the parent's locks: they are kept for good instead."""


class Database:
    """A file and the connections of this process to it. Safe for threads; see `fork` for forks.

    Opening it creates the file or brings its schema up to date. Raises `ConfigError`,
    `StoreCorrupt`, `SchemaMismatch` or `TransportUnavailable`.
    """

    def __init__(self, options: Options, clock: Clock) -> None:
        if sqlite3.sqlite_version_info < (3, 35):
            raise ConfigError(
                f"this Python has SQLite {sqlite3.sqlite_version}; taskmq needs 3.35 or later"
            )
        self.path = options.path
        self._clock = clock
        self._patience = options.busy_timeout
        self._log_checked_at = 0.0
        self._writer = _Slot(options, clock, "PRAGMA busy_timeout = 0")  # see _execute
        self._reader = _Slot(options, clock, "PRAGMA query_only = ON")
        fork.watch(self)
        # Also at the interpreter's exit, so that the log is written back and removed.
        self._finalizer = weakref.finalize(self, _close_all, (self._writer, self._reader))
        self._writer.run(_nothing)

    @property
    def log_path(self) -> Path:
        """The write-ahead log: it changes with every commit of any process."""
        return self.path.with_name(self.path.name + "-wal")

    def write(self, work: Work[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run ``work`` in one transaction: all of it is stored, or nothing.

        Raises a `taskmq.errors.TransportError`; the connection is usable again afterwards.
        """
        writer = self._writer
        result = writer.run(_in_transaction, self._patience, work, *args, **kwargs)
        if writer.checked_at != self._log_checked_at:
            self._bound_log()
        return result

    def change(self, statement: str, values: Sequence[object]) -> int:
        """Run one statement, which is a transaction of its own: how many rows it has changed.

        The locks and the commit are the same as with `write`. What is saved is three calls of
        SQLite, which take a tenth of the time of a small transaction. Raises as `write` does.
        """
        writer = self._writer
        count = writer.run(_execute, self._patience, statement, values).rowcount
        if writer.checked_at != self._log_checked_at:
            self._bound_log()
        return count

    def read(self, work: Work[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run ``work``, which reads; each statement of it sees one state of the store."""
        return self._reader.run(work, *args, **kwargs)

    def version(self) -> tuple[int, int]:
        """Differs after every commit of any process. Takes no I/O."""
        return self._reader.run(self._version_now)

    def close(self) -> None:
        """Close the connections. Closing twice is allowed."""
        self._finalizer()

    def _bound_log(self) -> None:
        """SQLite begins the log anew when it was written back and nobody reads from it. Among busy
        processes somebody always does, and it would grow for ever."""
        self._log_checked_at = self._writer.checked_at  # as often as the file
        with contextlib.suppress(OSError, TransportError):  # in vain: then the next time
            if self.log_path.stat().st_size > LOG_LIMIT_BYTES:
                self._writer.run(_restart_log)

    def _version_now(self, connection: sqlite3.Connection) -> tuple[int, int]:
        (version,) = connection.execute("PRAGMA data_version").fetchone()
        return self._reader.generation, version  # versions of two connections do not compare

    # -- fork.ForkAware ----------------------------------------------------------------------

    def before_fork(self) -> None:
        for slot in (self._writer, self._reader):
            slot.freeze()

    def after_fork_in_parent(self) -> None:
        for slot in (self._writer, self._reader):
            slot.thaw()

    def after_fork_in_child(self) -> None:
        for slot in (self._writer, self._reader):
            slot.begin_anew()


class _Slot:
    """One connection, opened when it is needed, and the lock of those who use it."""

    def __init__(self, options: Options, clock: Clock, *settings: str) -> None:
        self._options = options
        self._settings = settings
        self._clock = clock
        self._lock = threading.Lock()
        self._frozen = False
        self._closed = False
        self._connection: sqlite3.Connection | None = None
        self.generation = 0
        self._file: tuple[int, int] | None = None
        self.checked_at = 0.0
        """When it was opened, or its file looked at."""

    def run(self, work: Work[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call ``work`` with the connection, alone, and translate what SQLite raises."""
        with self._lock:
            try:
                now, connection = self._clock.monotonic(), self._connection
                if connection is None or now - self.checked_at >= SECONDS_BETWEEN_FILE_CHECKS:
                    connection = self._checked_connection(now)
                return work(connection, *args, **kwargs)
            except BaseException as error:
                self._recover(error)
                if isinstance(error, sqlite3.Error):
                    raise translate(error, self._options.path) from error
                raise

    def close(self) -> None:
        self._closed = True
        if self._lock.acquire(timeout=SECONDS_FOR_OTHER_THREADS):
            self._disconnect()
            self._lock.release()

    def freeze(self) -> None:
        """Close the connection and let nobody open another one before `thaw`."""
        self._frozen = self._lock.acquire(timeout=SECONDS_FOR_OTHER_THREADS)
        if self._frozen:
            self._disconnect()

    def thaw(self) -> None:
        if self._frozen:
            self._frozen = False
            self._lock.release()

    def begin_anew(self) -> None:
        """In a child process: whatever the parent's threads were doing does not concern it."""
        if self._connection is not None:
            _abandoned.append(self._connection)
        self._connection = None
        self._lock = threading.Lock()
        self._frozen = False

    def _checked_connection(self, now: float) -> sqlite3.Connection:
        self.checked_at = now
        if self._connection is None:
            self._connect()
        else:
            self._check_file()
        assert self._connection is not None  # noqa: S101  # for mypy; _connect has set it
        return self._connection

    def _connect(self) -> None:
        options = self._options
        if self._closed:
            raise TransportUnavailable(f"this transport on {options.path} is closed")
        suspicious = schema.check_file(options.path)
        connection = sqlite3.connect(
            options.path,
            timeout=options.busy_timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=CACHED_STATEMENTS,
        )
        try:
            if suspicious:
                schema.check_pages(connection, options.path)
            schema.prepare(connection, options.path, patience=options.busy_timeout)
            for setting in (*SETTINGS, f"PRAGMA synchronous = {options.synchronous}"):
                connection.execute(setting)
            for setting in self._settings:
                connection.execute(setting)
            (page_size,) = connection.execute("PRAGMA page_size").fetchone()
            connection.execute(f"PRAGMA wal_autocheckpoint = {SYNC_BYTES // page_size}")
            self._file = _identity(options.path)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        self.generation += 1

    def _check_file(self) -> None:
        # Somebody deleted or replaced the file: what we wrote to it would be lost without a word.
        path = self._options.path
        if _identity(path) != self._file:
            self._disconnect()
            raise TransportUnavailable(
                f"{path} was removed or replaced while it was in use; its jobs went with it. The "
                "next call opens the file that is there then"
            )

    def _recover(self, error: BaseException) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._disconnect()
        if isinstance(error, sqlite3.Error) and spoils_connection(error):
            self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _in_transaction(
    connection: sqlite3.Connection,
    patience: float,
    work: Work[P, R],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> R:
    _execute(connection, patience, "BEGIN IMMEDIATE")
    result = work(connection, *args, **kwargs)
    connection.execute("COMMIT")
    return result


def _execute(
    connection: sqlite3.Connection, patience: float, statement: str, values: Sequence[Any] = ()
) -> sqlite3.Cursor:
    """Run a statement that begins a transaction which writes, when no other process is in one.

    BEGIN has to be IMMEDIATE: one that begins by reading could not become one that writes if
    another process wrote in between. We wait ourselves: SQLite asks ever more seldom, down to ten
    times a second, so that among busy processes one may starve; asking once a millisecond is fair
    and costs little.
    """
    pause, deadline = FIRST_PAUSE, None
    while True:
        try:
            return connection.execute(statement, values)
        except sqlite3.OperationalError as error:
            now = time.monotonic()
            deadline = now + patience if deadline is None else deadline
            if not is_busy(error) or now >= deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _restart_log(connection: sqlite3.Connection) -> None:
    """Write the log back, and wait a moment for those who read from it."""
    connection.execute(f"PRAGMA busy_timeout = {MILLISECONDS_FOR_READERS}")
    try:
        connection.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
    finally:
        connection.execute("PRAGMA busy_timeout = 0")


def _nothing(connection: sqlite3.Connection) -> None:
    pass


def _close_all(slots: tuple[_Slot, ...]) -> None:
    for slot in slots:
        slot.close()


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
