"""The file of a spool: batches of jobs in the order in which they were submitted.

A connection lives for one step, so that threads and forked processes share nothing but the file.
What was put in is on disk when `SpoolFile.put` returns.
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from taskmq.envelope import Sealed, load
from taskmq.errors import StoreCorrupt, StoreFull, TransportError, TransportUnavailable
from taskmq.limits import Capacity

__all__ = ["Batch", "Refused", "SpoolFile"]

MARK, VERSION = 0x746D7173, 1  # "tmqs"
PATIENCE = 5.0
"""Seconds to wait for another process that writes."""
TABLES = """
CREATE TABLE jobs (
    place INTEGER PRIMARY KEY AUTOINCREMENT,
    batch INTEGER NOT NULL,
    id TEXT NOT NULL UNIQUE,
    envelope BLOB NOT NULL,
    capacity BLOB,
    spooled_at REAL NOT NULL,
    refused TEXT
)
"""


@dataclass(frozen=True)
class Batch:
    """Jobs that were submitted together: they are stored together, or not at all."""

    number: int
    jobs: tuple[Sealed, ...]

    @property
    def queues(self) -> frozenset[str]:
        return frozenset(job.envelope.queue for job in self.jobs)


@dataclass(frozen=True)
class Refused:
    """A job that the store did not take, and why."""

    job_id: str
    task: str
    queue: str
    spooled_at: float
    reason: str


class SpoolFile:
    """Raises `TransportUnavailable` if it cannot be written or read, `StoreFull` if the disk is
    full, `StoreCorrupt` if it is no spool."""

    def __init__(self, path: str) -> None:
        self.path = Path(path).absolute()

    def put(self, jobs: Sequence[Sealed]) -> None:
        """Keep a batch. A job that is there already stays as it is."""
        now = time.time()
        with self._open(write=True) as connection:
            (last,) = connection.execute("SELECT coalesce(max(batch), 0) FROM jobs").fetchone()
            connection.executemany(
                "INSERT OR IGNORE INTO jobs (batch, id, envelope, capacity, spooled_at) "
                "VALUES (?, ?, ?, ?, ?)",
                [(last + 1, each.envelope.id, each.data, _packed(each), now) for each in jobs],
            )

    def batches(self, after: int, jobs: int) -> list[Batch]:
        """The next that wait behind a batch: about so many jobs, but whole batches."""
        if not self.exists:
            return []
        with self._open() as connection:
            rows = connection.execute(
                "SELECT batch, envelope, capacity FROM jobs WHERE refused IS NULL AND batch > ?1 "
                "AND batch <= (SELECT max(batch) FROM (SELECT batch FROM jobs "
                "WHERE refused IS NULL AND batch > ?1 ORDER BY place LIMIT ?2)) ORDER BY place",
                (after, jobs),
            ).fetchall()
        found: dict[int, list[Sealed]] = {}
        for number, envelope, capacity in rows:
            found.setdefault(number, []).append(_sealed(envelope, capacity))
        return [Batch(number, tuple(jobs)) for number, jobs in found.items()]

    def remove(self, batches: Iterable[Batch]) -> None:
        """The store has them."""
        with self._open(write=True) as connection:
            connection.executemany(
                "DELETE FROM jobs WHERE batch = ? AND refused IS NULL",
                [(each.number,) for each in batches],
            )

    def refuse(self, batch: Batch, reason: str) -> None:
        """The store will not have it. It is kept, for people to decide."""
        with self._open(write=True) as connection:
            connection.execute(
                "UPDATE jobs SET refused = ? WHERE batch = ?", (reason, batch.number)
            )

    def reconsider(self) -> int:
        """Let what was refused wait again; how many jobs."""
        return self._change("UPDATE jobs SET refused = NULL WHERE refused IS NOT NULL")

    def discard(self, job_ids: Sequence[str]) -> int:
        """Delete jobs; how many there were."""
        marks = ", ".join("?" * len(job_ids))
        return self._change(f"DELETE FROM jobs WHERE id IN ({marks})", *job_ids)  # noqa: S608  # question marks

    def holds_any(self, job_ids: Sequence[str]) -> bool:
        """Whether one of these waits."""
        if not self.exists or not job_ids:
            return False
        marks = ", ".join("?" * len(job_ids))
        query = f"SELECT 1 FROM jobs WHERE refused IS NULL AND id IN ({marks}) LIMIT 1"  # noqa: S608  # question marks
        with self._open() as connection:
            return connection.execute(query, job_ids).fetchone() is not None

    def waiting(self) -> int:
        """How many jobs wait; those that were refused do not."""
        if not self.exists:
            return 0
        with self._open() as connection:
            query = "SELECT count(*) FROM jobs WHERE refused IS NULL"
            return int(connection.execute(query).fetchone()[0])

    def refused(self) -> list[Refused]:
        if not self.exists:
            return []
        with self._open() as connection:
            rows = connection.execute(
                "SELECT envelope, spooled_at, refused FROM jobs WHERE refused IS NOT NULL "
                "ORDER BY place"
            ).fetchall()
        envelopes = [load(row[0]) for row in rows]
        return [
            Refused(job.id, job.task, job.queue, at, reason)
            for job, (_, at, reason) in zip(envelopes, rows, strict=True)
        ]

    @property
    def exists(self) -> bool:
        return self.path.exists()

    @contextmanager
    def forwarding(self) -> Iterator[bool]:
        """Whether it is up to us: one process at a time forwards, so that the order stays."""
        try:
            handle = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise TransportUnavailable(f"spool {self.path}: {error}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
        finally:
            os.close(handle)

    def _change(self, statement: str, *values: str) -> int:
        if not self.exists:
            return 0
        with self._open(write=True) as connection:
            return connection.execute(statement, values).rowcount

    @contextmanager
    def _open(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """One transaction."""
        try:
            with closing(self._connect()) as connection:
                connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
                yield connection
                connection.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._translated(error) from error
        except OSError as error:
            raise TransportUnavailable(f"spool {self.path}: {error.strerror}") from error

    def _connect(self) -> sqlite3.Connection:
        if not self.exists:  # it has arguments of jobs in it
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
        connection = sqlite3.connect(self.path, timeout=PATIENCE, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = EXTRA")
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if self._version(connection) == (MARK, VERSION):
            return
        connection.execute("BEGIN IMMEDIATE")
        found = self._version(connection)
        if found == (0, 0) and not connection.execute("SELECT 1 FROM sqlite_master").fetchone():
            connection.execute(TABLES)
            connection.execute(f"PRAGMA application_id = {MARK}")
            connection.execute(f"PRAGMA user_version = {VERSION}")
        elif found != (MARK, VERSION):
            raise StoreCorrupt(
                f"spool {self.path} is no spool of this taskmq: give it a file of its own"
            )
        connection.execute("COMMIT")

    def _version(self, connection: sqlite3.Connection) -> tuple[int, int]:
        (mark,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        return mark, version

    def _translated(self, error: sqlite3.Error) -> TransportError:
        text = str(error)
        if "full" in text:
            return StoreFull(f"spool {self.path}: {text}")
        if "not a database" in text or "malformed" in text:
            return StoreCorrupt(f"spool {self.path}: {text}; move it away")
        return TransportUnavailable(f"spool {self.path}: {text}")


def _packed(job: Sealed) -> bytes | None:
    return None if job.capacity is None else msgspec.json.encode(job.capacity)


def _sealed(envelope: bytes, capacity: bytes | None) -> Sealed:
    room = None if capacity is None else msgspec.json.decode(capacity, type=Capacity)
    return Sealed(load(envelope), envelope, room)
