"""A PostgreSQL store that many jobs pass through stays as fast, and as large, as it was.

    SOAK_JOBS=1000000 pytest -s --timeout=0 tests/integration/test_postgres_soak.py

runs the long one, and prints its figures.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import psycopg

from taskmq.clock import SystemClock
from taskmq.codec import Payload
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.ids import new_id
from taskmq.transport import Ack, Reservation, Settlement
from taskmq.transports.postgres import PostgresTransport, from_url

JOBS = int(os.environ.get("SOAK_JOBS", "8000"))
DEPTH = min(20_000, JOBS // 4)
"""How many jobs wait at any time."""
BATCH = 100
RESULT_TTL = 2.0
WANTED = Reservation(queues={"q": 1}, worker="w", lease=60.0, limit=BATCH)


def job() -> Sealed:
    made = Envelope(v=1, id=new_id(), task="demo.task", queue="q", result_ttl=RESULT_TTL)
    return seal(made, limit=10_000)


def server_seconds(store: PostgresTransport) -> float:
    """CPU time of our sessions' server processes: what a busy machine does not change."""
    ticks = 0
    for pid in store.database.pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def test_a_million_jobs_leave_no_trace(postgres_url: str) -> None:
    store = from_url(f"{postgres_url}?timeout=60", clock=SystemClock())
    for _ in range(DEPTH // BATCH):
        store.enqueue([job() for _ in range(BATCH)])
    costs: list[float] = []
    done: list[Settlement] = []
    maintained_at = time.monotonic()
    sizes: list[int] = []
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        for number in range(JOBS // BATCH):
            store.enqueue([job() for _ in range(BATCH)])
            before = server_seconds(store)
            held = store.exchange(done, WANTED).deliveries
            costs.append(server_seconds(store) - before)
            assert len(held) == BATCH
            done = [Ack(one, Payload("json", b"1")) for one in held]
            if time.monotonic() - maintained_at > 0.5 or number % 20 == 0:
                maintained_at = time.monotonic()
                while store.maintain(1000).purged == 1000:
                    pass
            if number % 100 == 0:
                row = connection.execute("SELECT pg_total_relation_size('taskmq.jobs')").fetchone()
                assert row is not None
                sizes.append(row[0])
    store.close()
    tenth = max(1, len(costs) // 10)
    first, last = sum(costs[:tenth]) / tenth, sum(costs[-tenth:]) / tenth
    print(
        f"{JOBS:,} jobs: server time of an exchange of {BATCH}: first tenth {first * 1e3:.2f} ms, "
        f"last tenth {last * 1e3:.2f} ms; size {sizes[0] >> 20} MiB, then at most "
        f"{max(sizes) >> 20} MiB, in the end {sizes[-1] >> 20} MiB"
    )
    assert last < max(4 * first, 0.05)
