"""Saving what is readable of a damaged store, without any other program.

    python -m taskmq.transports.sqlite.salvage DAMAGED.db NEW.db

The damaged file is only read. Every row that can be read goes into a new store. A job whose
envelope or dependencies are lost, and an envelope whose job is lost, become dead letters with
reason ``salvaged``, for a person to decide: nothing runs that may not be meant to, and nothing
goes unsaid.

(``sqlite3 FILE .recover`` does the like, where that program was built with it; Debian's is not.)
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from taskmq.clock import Clock, SystemClock
from taskmq.envelope import load
from taskmq.errors import ConfigError, MessageError, StoreCorrupt, TaskmqError

from .database import Database
from .enqueue import row_of
from .options import Options
from .schema import file_size_by_header
from .statements import ENQUEUE
from .statements import SALVAGE as SQL

__all__ = ["main", "salvage"]

NUMBERED = ("jobs", "envelopes", "patterns", "results", "turns")
OTHERS = (
    "edges",
    "inputs",
    "losses",
    "nodes",
    "keys",
    "rates",
    "lines",
    "served",
    "workers",
    "leases",
    "paused",
    "paused_workflows",
    "documents",
)
BEYOND_EVERY_SEQ = 1 << 48


def salvage(damaged: Path, new: Path, *, clock: Clock) -> dict[str, int]:
    """Make a new store of what is readable in a damaged one; how many rows of each table were.

    Raises `ConfigError` if there is nothing to read or ``new`` exists, `StoreCorrupt` if not even
    the file's beginning is readable.
    """
    if not damaged.is_file():
        raise ConfigError(f"{damaged}: there is no such file")
    if new.exists():
        raise ConfigError(f"{new} exists; name a new file")
    with (
        tempfile.TemporaryDirectory(dir=new.absolute().parent) as folder,
        closing(sqlite3.connect(_copy(damaged, Path(folder)))) as source,
    ):
        _check_beginning(source, damaged)
        store = Database(Options(new.absolute()), clock)
        try:
            return store.write(_salvage, source, clock.now())
        finally:
            store.close()


def _copy(damaged: Path, folder: Path) -> Path:
    """A copy to work on, with its log, and as long as its header says: SQLite reads no other."""
    copy = folder / "damaged.db"
    shutil.copyfile(damaged, copy)
    log = damaged.with_name(f"{damaged.name}-wal")
    if log.exists():
        shutil.copyfile(log, folder / "damaged.db-wal")
    size = file_size_by_header(copy)
    if size > copy.stat().st_size:
        os.truncate(copy, size)
    return copy


def _check_beginning(source: sqlite3.Connection, damaged: Path) -> None:
    try:
        source.execute("PRAGMA writable_schema = ON")  # tolerates damage in the schema
        tables = source.execute("SELECT name FROM sqlite_master WHERE name = 'jobs'").fetchall()
    except sqlite3.DatabaseError as error:
        raise StoreCorrupt(f"{damaged}: not even its beginning is readable ({error})") from error
    if not tables:
        raise StoreCorrupt(f"{damaged}: it has no jobs; it is no store, or its schema is lost")


def _salvage(
    connection: sqlite3.Connection, source: sqlite3.Connection, now: float
) -> dict[str, int]:
    counts = {}
    for table in (*NUMBERED, *OTHERS):
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})").fetchall()]
        names = ", ".join(columns)
        read = (
            _numbered(source, table, names) if table in NUMBERED else _other(source, table, names)
        )
        insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({', '.join('?' * len(columns))})"  # noqa: S608  # our own names
        counts[table] = sum(connection.execute(insert, row).rowcount for row in read)
    connection.execute(SQL["drop_parts"])
    (envelopes,) = connection.execute(SQL["envelopes"]).fetchone()
    _adopt_orphans(connection, now)
    for statement in ("discard_orphans", "discard_patterns", "discard_results", "discard_edges"):
        connection.execute(SQL[statement])
    connection.execute(SQL["give_up_empty"], (now,))
    connection.execute(SQL["give_up_unlinked"], (now,))
    connection.execute(SQL["fill_empty"])
    connection.execute(SQL["count_pending"])
    connection.execute(SQL["let_go"])
    counts["envelopes"] = envelopes
    counts["salvaged"] = connection.execute(SQL["given_up"]).fetchone()[0]
    return counts


def _adopt_orphans(connection: sqlite3.Connection, now: float) -> None:
    for seq, data in connection.execute(SQL["orphans"]).fetchall():
        try:
            row = row_of(load(data), seq, token=0, now=now)
        except MessageError:
            continue
        if connection.execute(ENQUEUE["insert_jobs"], row).rowcount:
            connection.execute(SQL["adopt"], (now, seq))


def _numbered(source: sqlite3.Connection, table: str, names: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a table by number. Where one cannot be read, we jump ahead, further each time."""
    sql = f"SELECT {names} FROM {table} NOT INDEXED WHERE seq > ? ORDER BY seq"  # noqa: S608  # our own names
    position, jump = 0, 1
    while position < BEYOND_EVERY_SEQ:
        try:
            for row in source.execute(sql, (position,)):
                yield row
                position, jump = row[0], 1
            return
        except sqlite3.DatabaseError:
            position, jump = position + jump, jump * 2


def _other(source: sqlite3.Connection, table: str, names: str) -> Iterator[tuple[Any, ...]]:
    """The rows of a table without numbers, from both ends. Some may come twice."""
    for direction in ("ASC", "DESC"):
        try:
            yield from source.execute(f"SELECT {names} FROM {table} ORDER BY 1 {direction}")  # noqa: S608  # our own names
            return
        except sqlite3.DatabaseError:
            continue


def main(arguments: list[str]) -> int:
    """The command. Exit status 0: saved what could be; 1: could not; 2: wrong call."""
    if len(arguments) != 2:
        sys.stderr.write("usage: python -m taskmq.transports.sqlite.salvage DAMAGED.db NEW.db\n")
        return 2
    try:
        counts = salvage(Path(arguments[0]), Path(arguments[1]), clock=SystemClock())
    except TaskmqError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(
        f"{arguments[1]}: {counts['jobs']} jobs, {counts['envelopes']} envelopes, "
        f"{counts['results']} results; {counts['salvaged']} dead letters with reason 'salvaged' "
        "stand for what was incomplete\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
