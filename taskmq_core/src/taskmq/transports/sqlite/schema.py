"""What is in the file before we trust it, and bringing it up to date."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from pathlib import Path

from taskmq.errors import ConfigError, SchemaMismatch, StoreCorrupt, TransportUnavailable
from taskmq.transports._files import read_text

from .errors import is_busy, salvage

__all__ = [
    "APPLICATION_ID",
    "VERSION",
    "check_file",
    "check_pages",
    "file_size_by_header",
    "prepare",
]

APPLICATION_ID = int.from_bytes(b"tskq", "big")
"""In the file's header, so that a file is known as ours without opening it as a database."""

PACKAGE = __package__
MIGRATIONS = {1: "0001_initial.sql"}
"""By the version that they make."""
VERSION = max(MIGRATIONS)

PAGE_SIZE = 2048
"""Bytes, half of SQLite's default: the commit of a single job writes three pages and costs less so.
That of many jobs costs the same."""
MAGIC = b"SQLite format 3\0"
HEADER_BYTES = 100

_kept_open: dict[tuple[int, int], int] = {}
"""Descriptors by device and inode; see `_read_header`."""
_inspecting = threading.Lock()


def check_file(path: Path) -> bool:
    """Look at a file from outside, and refuse what is not ours before anything touches it.

    True if something looks wrong and is worth a closer check. Raises `ConfigError`,
    `TransportUnavailable` or `StoreCorrupt`. https://www.sqlite.org/fileformat.html
    """
    try:
        _check_access(path)
        if not path.exists():
            return False
        header = _read_header(path)
        size = path.stat().st_size
    except OSError as error:
        raise TransportUnavailable(f"{path} cannot be read: {error.strerror}") from error
    if not header:
        _refuse_emptied(path)
        return False
    if not header.startswith(MAGIC):
        raise StoreCorrupt(
            f"{path} is not an SQLite file (it begins with {header[:16]!r}); if it was a store, "
            f"{salvage(path)}; if not, give the store another file"
        )
    if len(header) < HEADER_BYTES:
        raise StoreCorrupt(f"{path} is cut off after {size} bytes; {salvage(path)}")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise ConfigError(
            f"{path} is the database of another application and was not touched; give the store "
            "a file of its own"
        )
    return size < _size_by_header(header) or size % 512 != 0


def file_size_by_header(path: Path) -> int:
    """How many bytes a database file should have at least; 0 if it is none."""
    with path.open("rb") as file:
        header = file.read(HEADER_BYTES)
    return _size_by_header(header) if header.startswith(MAGIC) else 0


def _size_by_header(header: bytes) -> int:
    page_size = int.from_bytes(header[16:18], "big")
    return int.from_bytes(header[28:32], "big") * (65536 if page_size == 1 else page_size)


def _read_header(path: Path) -> bytes:
    """The first bytes of a file, which then stays open.

    SQLite's locks belong to the process and the file: closing any descriptor of it drops those of
    every connection (https://www.sqlite.org/howtocorrupt.html, 2.2). Another process would take
    itself for the last user and delete the log under us. So one descriptor a file is kept until
    the file itself is gone.
    """
    with _inspecting:
        for known, kept in list(_kept_open.items()):
            if os.fstat(kept).st_nlink == 0:
                os.close(_kept_open.pop(known))
        found = path.stat()
        key = found.st_dev, found.st_ino
        if key not in _kept_open:
            _kept_open[key] = os.open(path, os.O_RDONLY)
        return os.pread(_kept_open[key], HEADER_BYTES, 0)


def _check_access(path: Path) -> None:
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no directory {path.parent}; create it first")
    if path.is_dir():
        raise ConfigError(f"{path} is a directory; name a file in it")
    if path.exists():
        if not os.access(path, os.R_OK | os.W_OK):
            raise TransportUnavailable(f"{path} is not readable and writable for this user")
    elif not os.access(path.parent, os.W_OK | os.X_OK):
        raise TransportUnavailable(
            f"{path} cannot be created: {path.parent} is not writable for this user"
        )


def _refuse_emptied(path: Path) -> None:
    # SQLite would take it for a new database and throw the log away, with all that is in it.
    log = path.with_name(path.name + "-wal")
    if log.exists() and log.stat().st_size > 0:
        raise StoreCorrupt(
            f"{path} is empty but its log {log.name} is not: the file was cut off; restore it "
            "from a backup, or delete both to begin anew"
        )


def check_pages(connection: sqlite3.Connection, path: Path) -> None:
    """Read every page of the file. Raises `StoreCorrupt`."""
    (finding,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if finding != "ok":
        raise StoreCorrupt(f"{path} is damaged ({finding}); {salvage(path)}")


def _is_current(connection: sqlite3.Connection, path: Path) -> bool:
    """Whether the schema is ours and of this version. Raises `SchemaMismatch` for a later one."""
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    if found > VERSION:
        raise SchemaMismatch(
            f"{path} has schema version {found}, this taskmq knows {VERSION}: it was used by a "
            "later version; upgrade taskmq here"
        )
    return bool(found == VERSION)


def prepare(connection: sqlite3.Connection, path: Path, *, patience: float) -> None:
    """Create the schema, or bring it up to date. Several processes may do so at once.

    A new file is made in SQLite's rollback mode and only then switched to its write-ahead log: so
    the file proper says from its first moment whose it is.
    """
    if not _is_current(connection, path):
        connection.execute(f"PRAGMA page_size = {PAGE_SIZE}")  # of a new file
        connection.execute("BEGIN")
        try:
            # The first statement of the transaction, since it locks out other writers, creates the
            # first page of a new file, and must not do that in a transaction of its own: others
            # would find a file that does not say whose it is. Without effect on an old file.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            _migrate(connection, path)
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")
    _use_log(connection, path, patience)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    if _is_current(connection, path):
        return  # another process was faster
    (found,) = connection.execute("PRAGMA user_version").fetchone()
    for number, name in MIGRATIONS.items():
        if number > found:
            for statement in statements(read_text(PACKAGE, f"sql/{name}")):
                connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")


def statements(script: str) -> list[str]:
    """The statements of a script. (``executescript`` would commit before it begins.)"""
    found, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            found.append(current)
            current = ""
    return found


def _use_log(connection: sqlite3.Connection, path: Path, patience: float) -> None:
    # The switch needs the file for itself and, unlike transactions, does not wait for it.
    deadline = time.monotonic() + patience
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() >= deadline:
                raise
            time.sleep(0.005)
            continue
        if mode != "wal":
            raise ConfigError(
                f"{path} is on a file system without shared memory, which SQLite's write-ahead "
                "log needs (a network share?); put it on a local disk"
            )
        return
