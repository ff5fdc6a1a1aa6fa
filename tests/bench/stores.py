"""Empty stores for the benchmarks, each server started once and only for them."""

from __future__ import annotations

import subprocess
import tempfile
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from tests import services

from taskmq.plugins import open_transport

STORES = ("memory", "sqlite", "redis", "postgres", "rabbitmq")
NO_PROBE: tuple[str, ...] = ()
SETTINGS = {"shared_buffers": "256MB", "max_connections": "400"}
SESSIONS = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'"


@dataclass(frozen=True)
class Place:
    """A kind of store, running."""

    new_url: Callable[[], str]
    """Of an empty one."""
    server: int | None = None
    """The process, if it has one of its own."""
    probe: tuple[str, ...] = NO_PROBE
    """A command that prints how many commands, or transactions, it has been asked for."""
    connections: Callable[[], int] | None = None
    """How many it has, the one that asks not counted."""
    new_namespace: Callable[[], str] | None = None
    at_rest: Callable[[], AbstractContextManager[None]] = nullcontext
    """While clients at rest are counted: the server does nothing of its own that it would count."""

    def beside(self) -> str:
        """The URL of an empty one, those that are there staying as they are."""
        return (self.new_namespace or self.new_url)()


@contextmanager
def a_store(name: str, *, fsync: bool = True) -> Iterator[Place]:
    """One of `STORES`, while it is needed. PostgreSQL waits for the disk, unless told not to."""
    if name == "redis":
        with services.Redis() as redis:
            yield Place(
                lambda: _emptied(redis),
                redis.pid,
                _commands(redis),
                lambda: redis.cli("CLIENT", "LIST").count("laddr=") - 1,
                lambda: f"{redis.url}?namespace={_name()}",
            )
    elif name == "postgres":
        with services.Postgres(SETTINGS, fsync=fsync) as postgres:
            yield Place(
                lambda: _database(postgres),
                postgres.pid,
                _transactions(postgres),
                lambda: _asked(postgres, SESSIONS) - 1,
                at_rest=lambda: _without_autovacuum(postgres),
            )
    elif name == "rabbitmq":
        with services.RabbitMQ() as rabbitmq, _folder() as folder:
            yield Place(
                lambda: f"{rabbitmq.create_vhost(_name())}?state=sqlite:///{folder}/{_name()}.db",
                rabbitmq.pid,
                connections=lambda: rabbitmq.ctl("list_connections", "-q", "pid").count("<"),
            )
    elif name == "sqlite":
        with _folder() as folder:
            yield Place(lambda: f"sqlite:///{folder}/{_name()}.db")
    else:
        yield Place(lambda: "memory://")


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="taskmq-bench-") as folder:
        yield Path(folder)


def _name() -> str:
    return f"bench_{uuid.uuid4().hex}"


def _emptied(redis: services.Redis) -> str:
    redis.cli("FLUSHALL")
    return redis.url


def _database(postgres: services.Postgres) -> str:
    url = postgres.create_database(_name())
    with closing(open_transport(url)) as transport:
        transport.stats()  # the schema is there
    return url


def _commands(redis: services.Redis) -> tuple[str, ...]:
    """What clients sent: its count of commands has those within scripts as well."""
    script = (
        f"{services.find_program('redis-cli')} -p {redis.port} INFO stats "
        "| sed -n 's/total_reads_processed:\\([0-9]*\\).*/\\1/p'"
    )
    return ("sh", "-c", script)


def _transactions(postgres: services.Postgres) -> tuple[str, ...]:
    query = "SELECT sum(xact_commit + xact_rollback) FROM pg_stat_database"
    return _psql(postgres, query)


@contextmanager
def _without_autovacuum(postgres: services.Postgres) -> Iterator[None]:
    """It comes once a minute to each database, and makes transactions for each of its tables."""
    postgres.query("ALTER SYSTEM SET autovacuum = off")
    postgres.query("SELECT pg_reload_conf()")
    try:
        yield
    finally:
        postgres.query("ALTER SYSTEM RESET autovacuum")
        postgres.query("SELECT pg_reload_conf()")


def _psql(postgres: services.Postgres, query: str) -> tuple[str, ...]:
    psql = str(services.find_program("psql"))
    return (psql, postgres.url, "--no-psqlrc", "--quiet", "--tuples-only", "-c", query)


def _asked(postgres: services.Postgres, query: str) -> int:
    return int(subprocess.check_output(_psql(postgres, query)))
