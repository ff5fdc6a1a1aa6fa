"""From what SQLite says to what the port promises: one total map, applied at one place."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

from taskmq.errors import (
    StoreCorrupt,
    StoreFull,
    TransportError,
    TransportUnavailable,
)

__all__ = ["is_busy", "salvage", "spoils_connection", "translate"]

BUSY, LOCKED, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, PROTOCOL, NOTADB = (
    5, 6, 8, 10, 11, 13, 14, 15, 26,
)  # fmt: skip
"""Primary result codes: https://www.sqlite.org/rescode.html"""

MESSAGES = {
    "database is locked": BUSY,
    "database table is locked": LOCKED,
    "database schema is locked": LOCKED,
    "attempt to write a readonly database": READONLY,
    "disk I/O error": IOERR,
    "database disk image is malformed": CORRUPT,
    "database or disk is full": FULL,
    "unable to open database file": CANTOPEN,
    "locking protocol": PROTOCOL,
    "file is not a database": NOTADB,
}
"""Python 3.10 gives no codes; these texts are SQLite's own (``sqlite3_errstr``)."""

LOCK_HINT = (
    "a long transaction of another program (an sqlite3 shell, a backup, a database browser) may "
    "hold it: end that, or wait longer with ?busy_timeout=SECONDS"
)
EXPLANATIONS: dict[int, tuple[type[TransportError], str]] = {
    BUSY: (TransportUnavailable, f"is locked by another process; {LOCK_HINT}"),
    LOCKED: (TransportUnavailable, f"is locked; {LOCK_HINT}"),
    PROTOCOL: (TransportUnavailable, f"is locked by too many at once; {LOCK_HINT}"),
    READONLY: (
        TransportUnavailable,
        "cannot be written; make the file, its -wal and -shm files and their directory writable "
        "for this user",
    ),
    CANTOPEN: (
        TransportUnavailable,
        "cannot be opened; check that its directory exists and is writable for this user, and "
        "the limit of open files",
    ),
    IOERR: (TransportUnavailable, "had an I/O error ({error}); check the disk and its mount"),
    FULL: (
        StoreFull,
        "is full: no space left for it; nothing was written. Free space on its disk (finished "
        "jobs are deleted after their result_ttl)",
    ),
}


def translate(error: sqlite3.Error, path: Path) -> TransportError:
    """The error of the port that stands for any error of SQLite; never raises."""
    code = _primary_code(error)
    if code == IOERR and _disk_is_full(path):
        code = FULL
    if code in (CORRUPT, NOTADB):
        return StoreCorrupt(f"{path} is damaged ({error}); {salvage(path)}")
    if code not in EXPLANATIONS:
        return _unexpected(error, path)
    kind, explanation = EXPLANATIONS[code]
    return kind(f"{path} {explanation.format(error=error)}")


def is_busy(error: sqlite3.Error) -> bool:
    """Whether it is another process that stands in the way."""
    return _primary_code(error) == BUSY


def spoils_connection(error: sqlite3.Error) -> bool:
    """Whether the connection is better closed and opened anew, which also looks at the file."""
    return _primary_code(error) not in (BUSY, LOCKED, FULL)


def salvage(path: Path) -> str:
    """How to save what can still be read."""
    new = path.with_name(f"{path.stem}-saved{path.suffix}")
    return (
        "stop all workers, keep a copy, and save what is readable with "
        f"`python -m taskmq.transports.sqlite.salvage {path} {new}` (or with "
        f"`sqlite3 {path} .recover | sqlite3 {new}`)"
    )


def _primary_code(error: sqlite3.Error) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)  # Python 3.11
    if isinstance(code, int):
        return code & 0xFF
    text = str(error)
    return next((number for start, number in MESSAGES.items() if text.startswith(start)), None)


def _unexpected(error: sqlite3.Error, path: Path) -> TransportError:
    text = str(error)
    if text.startswith(("no such table", "no such column")) or "has no column named" in text:
        return StoreCorrupt(
            f"{path} lacks a part of its schema ({text}): another program changed it; "
            f"{salvage(path)}"
        )
    return TransportError(f"{path}: unexpected SQLite error: {type(error).__name__}: {text}")


def _disk_is_full(path: Path) -> bool:
    try:
        return os.statvfs(path.parent).f_bavail == 0
    except OSError:
        return False
