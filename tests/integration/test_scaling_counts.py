"""A claim costs no more where much else is stored, and a worker of many queues asks no more than it
has to of each. Counted, not timed: see docs/explanation/scaling.md."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from tests import services

from taskmq.clock import SystemClock
from taskmq.envelope import Envelope, Sealed, seal
from taskmq.ids import new_id
from taskmq.plugins import open_transport
from taskmq.transport import Reservation, Transport

DAY = 86_400.0
LIMIT = 20
MANY = [f"queue-{number:03}" for number in range(200)]


def jobs(count: int, queue: str = "default", eta: float | None = None) -> list[Sealed]:
    return [
        seal(Envelope(v=1, id=new_id(), task="noop", queue=queue, eta=eta), 1 << 20)
        for _ in range(count)
    ]


@dataclass(frozen=True)
class Counted:
    """A store, and what counts the work of the store for a claim of some queues."""

    transport: Transport
    work_of: Callable[[list[str]], int]


def claim(transport: Transport, queues: list[str]) -> None:
    wanted = Reservation(queues=dict.fromkeys(queues, 1), worker="w", lease=60.0, limit=LIMIT)
    assert len(transport.reserve(wanted)) == LIMIT


@pytest.fixture
def sqlite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Counted]:
    """Counts tens of instructions of SQLite's machine."""
    steps = 0
    connect = sqlite3.connect

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    def counting(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        connection.set_progress_handler(step, 10)
        return connection

    monkeypatch.setattr(sqlite3, "connect", counting)
    with closing(open_transport(f"sqlite:///{tmp_path}/jobs.db", clock=SystemClock())) as transport:

        def work_of(queues: list[str]) -> int:
            before = steps
            claim(transport, queues)
            return steps - before

        yield Counted(transport, work_of)


@pytest.fixture
def redis(redis_url: str, redis_server: services.Redis) -> Iterator[Counted]:
    """Counts commands, inside scripts as well."""

    def commands() -> int:
        calls = re.findall(r"cmdstat_(\S+):calls=(\d+)", redis_server.cli("INFO", "commandstats"))
        return sum(int(count) for name, count in calls if name != "info")

    with closing(open_transport(redis_url, clock=SystemClock())) as transport:

        def work_of(queues: list[str]) -> int:
            before = commands()
            claim(transport, queues)
            return commands() - before

        yield Counted(transport, work_of)


@pytest.fixture
def postgres(postgres_url: str) -> Iterator[Counted]:
    """Counts entries of indexes that are read, and look-ups in them."""
    call = (
        "SELECT * FROM taskmq.exchange(NULL, false, NULL, NULL, NULL, NULL, NULL, NULL, NULL, "
        "%s::text[], %s::float8[], NULL, 'w', 60, %s, NULL, %s::json)"
    )
    counted = "SELECT sum(idx_scan + idx_tup_fetch) FROM pg_stat_xact_user_tables"
    with closing(open_transport(postgres_url, clock=SystemClock())) as transport:

        def work_of(queues: list[str]) -> int:
            turns = msgspec.json.encode({"present": 0.0, "served": [None] * len(queues)}).decode()
            with psycopg.connect(postgres_url) as connection:
                values = (queues, [1.0] * len(queues), LIMIT, turns)
                rows = connection.execute(call, values).fetchall()
                assert len(rows) == LIMIT + 1
                row = connection.execute(counted).fetchone()
                assert row is not None
                return int(row[0])

        yield Counted(transport, work_of)


@pytest.fixture
def store(request: pytest.FixtureRequest) -> Counted:
    found: Counted = request.getfixturevalue(request.param)
    return found


STORES = pytest.mark.parametrize("store", ["sqlite", "redis", "postgres"], indirect=True)


@STORES
def test_a_claim_costs_the_same_behind_which_many_wait(store: Counted) -> None:
    store.transport.enqueue(jobs(4 * LIMIT))
    store.work_of(["default"])  # what only the first has to do
    alone = store.work_of(["default"])
    for _ in range(4):
        store.transport.enqueue(jobs(500))
        store.transport.enqueue(jobs(500, eta=time.time() + DAY))
    assert store.work_of(["default"]) <= alone * 1.1


@STORES
def test_a_claim_costs_the_same_beside_many_queues(store: Counted) -> None:
    store.transport.enqueue([job for name in MANY[:10] for job in jobs(LIMIT, name)])
    store.work_of(MANY[:10])
    alone = store.work_of(MANY[:10])
    store.transport.enqueue([job for name in MANY[10:] for job in jobs(3, name)])
    assert store.work_of(MANY[:10]) <= alone * 1.1


MOST = {"sqlite": 17, "redis": 9.5, "postgres": 13}
"""For each further queue: tens of instructions, commands, look-ups. (20, 11 and 16 while the jobs
of every queue were counted.)"""


@STORES
def test_a_queue_more_costs_a_few_looks(store: Counted, request: pytest.FixtureRequest) -> None:
    """It takes no turn among the next jobs: what it has is not counted."""
    store.transport.enqueue([job for name in MANY for job in jobs(3, name)])
    some = MANY[: 3 * LIMIT]
    store.work_of(some)
    each = (store.work_of(MANY) - store.work_of(some)) / (len(MANY) - len(some))
    assert each <= MOST[request.node.callspec.params["store"]]
