"""What the SQLite transport does, beside what bare SQLite can do: the same work, in one run.

    python tests/bench/sqlite_transport.py [--jobs 20000] [--folder DIRECTORY]

The bare side is the least that a queue needs: one table, one transaction a step, rows deleted when
they are done. It keeps no state, result, retention, lease index or unique id. Compare the ratios:
the figures are this machine's, and of this minute.
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from taskmq.clock import SystemClock
from taskmq.codec import Payload
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.ids import new_id
from taskmq.transport import Ack, Delivery, Reservation
from taskmq.transports.sqlite import SqliteTransport, from_url

BULK, BATCH, ROUNDS = 500, 100, 3
RESULT = Payload("json", b"null")
WANTED = Reservation(queues={"default": 1}, worker="bench", lease=60.0, limit=BATCH)

Step = Callable[[], int]
"""Does some of the work, and says how many jobs that were; 0: nothing is left."""


def envelopes(count: int) -> list[Sealed]:
    """Some 230 bytes each, as an application's small jobs have them."""
    args = msgspec.Raw(b'[184467,"ada@example.com"]')
    kwargs = msgspec.Raw(b'{"locale":"en"}')
    headers = {"trace": "00-4bf92f3577b34da6"}
    return [
        seal(
            Envelope(
                v=1,
                id=new_id(),
                task="shop.tasks.send_receipt",
                queue="default",
                args=args,
                kwargs=kwargs,
                headers=headers,
                enqueued_at=time.time(),
            ),
            1 << 20,
        )
        for _ in range(count)
    ]


def rate(step: Step) -> float:
    """Jobs a second, of steps until nothing is left."""
    done, started = 0, time.perf_counter()
    while count := step():
        done += count
    return done / (time.perf_counter() - started)


def chunks(jobs: list[Sealed], size: int) -> Iterator[list[Sealed]]:
    return (jobs[start : start + size] for start in range(0, len(jobs), size))


# -- bare SQLite ---------------------------------------------------------------------------------

TABLE = """
    CREATE TABLE messages (id INTEGER PRIMARY KEY, job TEXT NOT NULL, queue TEXT NOT NULL,
        body BLOB NOT NULL, priority INTEGER NOT NULL DEFAULT 0, state INTEGER NOT NULL DEFAULT 0,
        visible_at REAL NOT NULL, lease_until REAL);
    CREATE INDEX claims ON messages (queue, priority DESC, id) WHERE state = 0;
    CREATE INDEX jobs ON messages (job);
"""
INSERT = "INSERT INTO messages (job, queue, body, visible_at) VALUES (?, ?, ?, ?)"
CLAIM = """
    UPDATE messages SET state = 1, lease_until = ? WHERE id IN (
        SELECT id FROM messages WHERE state = 0 AND queue = ? AND visible_at <= ?
        ORDER BY priority DESC, id LIMIT ?
    ) RETURNING id, body
"""


def bare(path: Path, jobs: int) -> dict[str, float]:
    database = sqlite3.connect(path, isolation_level=None, cached_statements=256)
    database.executescript("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;" + TABLE)

    def insert(batch: list[Sealed] | None) -> int:
        rows = [(s.envelope.id, "default", s.data, time.time()) for s in batch or ()]
        database.execute("BEGIN IMMEDIATE")
        database.executemany(INSERT, rows)
        database.execute("COMMIT")
        return len(rows)

    held: list[tuple[int]] = []

    def exchange() -> int:
        now, done = time.time(), len(held)
        database.execute("BEGIN IMMEDIATE")
        database.executemany("DELETE FROM messages WHERE id = ?", held)
        rows = database.execute(CLAIM, (now + 60, "default", now, BATCH)).fetchall()
        database.execute("COMMIT")
        held[:] = [(row[0],) for row in rows]
        return done or len(rows)

    single, bulk = chunks(envelopes(jobs // 4), 1), chunks(envelopes(jobs), BULK)
    figures = {
        "enqueue one by one": rate(lambda: insert(next(single, None))),
        f"enqueue in batches of {BULK}": rate(lambda: insert(next(bulk, None))),
        f"settle {BATCH} and reserve {BATCH}": rate(exchange),
    }
    database.close()
    return figures


# -- the transport -------------------------------------------------------------------------------


def transport(path: Path, jobs: int) -> dict[str, float]:
    store = from_url(f"sqlite:///{path}", clock=SystemClock())
    held: list[Delivery] = []

    def exchange() -> int:
        done = len(held)
        answer = store.exchange([Ack(delivery, RESULT) for delivery in held], WANTED)
        held[:] = answer.deliveries
        return done or len(held)

    single, bulk = chunks(envelopes(jobs // 4), 1), chunks(envelopes(jobs), BULK)
    figures = {
        "enqueue one by one": rate(lambda: len(store.enqueue(next(single, [])))),
        f"enqueue in batches of {BULK}": rate(lambda: len(store.enqueue(next(bulk, [])))),
        f"settle {BATCH} and reserve {BATCH}": rate(exchange),
    }
    figures |= lookups(store)
    store.close()
    return figures


def lookups(store: SqliteTransport) -> dict[str, float]:
    """What an idle worker does, a second."""
    left = iter(range(2_000))
    return {"look and find nothing": rate(lambda: _look(store, next(left, None)))}


def _look(store: SqliteTransport, number: int | None) -> int:
    if number is None:
        return 0
    store.exchange((), WANTED)
    return 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--jobs", type=int, default=20_000)
    parser.add_argument("--folder", help="where the files are made (default: a temporary one)")
    options = parser.parse_args()
    runs: dict[str, list[dict[str, float]]] = {"bare": [], "transport": []}
    for _ in range(ROUNDS):
        for name, measure in (("bare", bare), ("transport", transport)):
            with tempfile.TemporaryDirectory(dir=options.folder) as folder:
                runs[name].append(measure(Path(folder, "bench.db"), options.jobs))
    medians = {
        name: {figure: statistics.median(run[figure] for run in of) for figure in of[0]}
        for name, of in runs.items()
    }
    print(f"{'jobs a second':32}{'transport':>12}{'bare':>12}{'ratio':>8}")
    for figure, ours in medians["transport"].items():
        theirs = medians["bare"].get(figure)
        compared = f"{theirs:12,.0f}{ours / theirs:8.0%}" if theirs else ""
        print(f"{figure:32}{ours:12,.0f}{compared}")


if __name__ == "__main__":
    main()
