"""No queue at all: the least that a client can do to put a job of this size into the store and know
that it is there. What a queue adds to that is its own."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from typing import Any

from .base import Contestant, Order

JOB = json.dumps(
    {
        "id": "0198d3f25b1c7c3e9a412f6d8c0b7e55",
        "task": "bench.contestants.native.mark",
        "args": [184467],
        "kwargs": {},
        "queue": "default",
        "priority": 0,
        "submitted": 1732912345.123456,
        "attempt": 0,
        "headers": {"trace": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
    }
).encode()
"""About as long as the job of a queue."""

SCRIPT = """
redis.call('HSET', 'job:' .. ARGV[1], 'body', ARGV[2], 'state', 'ready')
redis.call('LPUSH', 'queue', ARGV[1])
return redis.call('INCR', 'count')
"""


class Queue(Contestant):
    def __init__(self, order: Order) -> None:
        super().__init__(order)
        self.put = STORES[order.store](order.url)

    def submit(self, number: int) -> object:
        return self.put(number)

    def commands(self) -> list[list[str]]:
        raise NotImplementedError("nothing runs what was put there")


def on_sqlite(url: str) -> Callable[[int], object]:
    """A row and a commit, in the journal mode that queues use."""
    base = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    base.execute("PRAGMA journal_mode = WAL")
    base.execute("PRAGMA synchronous = NORMAL")
    base.execute("CREATE TABLE job (id INTEGER PRIMARY KEY, queue TEXT, state TEXT, body BLOB)")
    base.execute("CREATE INDEX ready ON job (queue, id) WHERE state = 'ready'")
    insert = "INSERT INTO job (queue, state, body) VALUES ('default', 'ready', ?)"
    return lambda number: base.execute(insert, (JOB,))


def on_redis(url: str) -> Callable[[int], object]:
    """One script of three commands, by its digest."""
    import redis

    script = redis.Redis.from_url(url).register_script(SCRIPT)
    return lambda number: script(args=(number, JOB))


def on_postgres(url: str) -> Callable[[int], object]:
    """A row and a commit, by a prepared statement."""
    import psycopg

    base: Any = psycopg.connect(url, autocommit=True)
    base.prepare_threshold = 0
    base.execute(
        "CREATE TABLE limit_job (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
        "queue text NOT NULL, state text NOT NULL, body bytea NOT NULL)"
    )
    base.execute("CREATE INDEX ON limit_job (queue, id) WHERE state = 'ready'")
    insert = "INSERT INTO limit_job (queue, state, body) VALUES ('default', 'ready', %s)"
    return lambda number: base.execute(insert, (JOB,))


STORES = {"sqlite": on_sqlite, "redis": on_redis, "postgres": on_postgres}
