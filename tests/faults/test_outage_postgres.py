"""Outages of PostgreSQL that other stores do not have. Those that they have are in
test_outage_common.py, for PostgreSQL too.

Figures: ``pytest -s``, or ``PROMISES_FIGURES=file``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests import services
from tests.waiting import wait_for

from .outages import LEASE, Crew, Ground, Scene, postgres_ground, scene

Measured = Callable[..., None]
EVERYBODY = "pid <> pg_backend_pid() AND backend_type = 'client backend'"
LISTENERS = (
    "pid <> pg_backend_pid()"
    " AND (query LIKE '%pg_advisory_lock_shared%' OR query LIKE '%listening connection%')"
)
END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE"
COUNT = "SELECT count(*) FROM pg_stat_activity WHERE"
OPTIONS = ("--lease", str(LEASE))
IN_FLIGHT = ("threads", "processes", "asyncio")
"""Pools that run a long job beside short ones."""


@pytest.fixture(scope="module")
def hurt(
    require_server: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    """One store for all of these tests, and the same workers."""
    require_server(services.Postgres.program)
    with scene(tmp_path_factory.mktemp("postgres"), postgres_ground, OPTIONS) as made:
        yield made


def sql(scene: Scene, statement: str) -> str:
    """Past the proxy."""
    server = scene.ground.server
    assert isinstance(server, services.Postgres)
    return server.query(statement)


def end_sessions(scene: Scene, which: str) -> int:
    return sql(scene, f"{END} {which}").count("t")


def test_all_sessions_are_terminated(hurt: Scene, measured: Measured) -> None:
    """A producer may never notice: an idle connection that has ended is not used."""
    with hurt.outage("terminated", measured) as producer:
        for _ in range(3):
            acknowledged = len(producer.acknowledged)
            assert end_sessions(hurt, EVERYBODY) >= len(hurt.crew.processes)
            wait_for(lambda: len(producer.acknowledged) > acknowledged + 8, "jobs")  # noqa: B023  # waited for here


def test_read_only(hurt: Scene, measured: Measured) -> None:
    """As when an operator prepares a switchover."""
    with hurt.outage("read-only", measured) as producer:
        with producer.failing(3):
            sql(hurt, "ALTER SYSTEM SET default_transaction_read_only = on")
            sql(hurt, "SELECT pg_reload_conf()")
        assert all("read-only" in str(error) for error, _ in producer.errors)
        sql(hurt, "ALTER SYSTEM RESET ALL")
        sql(hurt, "SELECT pg_reload_conf()")


def test_a_server_that_stands_still(hurt: Scene, measured: Measured) -> None:
    """Its kernel accepts connections and takes bytes: only the wait for an answer tells."""
    server: Any = hurt.ground.server
    with hurt.outage("stopped", measured) as producer:
        try:
            with producer.failing(2):
                server.pause()
        finally:
            server.resume()


def test_the_connections_that_listen_are_lost(hurt: Scene, measured: Measured) -> None:
    """Then workers look by themselves; soon they listen again, each on one connection."""

    def listeners() -> int:
        return int(sql(hurt, f"{COUNT} {LISTENERS}"))

    crew = hurt.crew
    wait_for(lambda: listeners() >= len(crew.processes), "listeners")
    with hurt.outage("deaf", measured):
        assert end_sessions(hurt, LISTENERS) >= len(crew.processes)
        wait_for(lambda: listeners() >= len(crew.processes), "listeners again")


# -- failover ----------------------------------------------------------------------------------


@pytest.mark.timeout(300)
@pytest.mark.parametrize("trouble", ["killed", "black-holed"])
def test_failover_to_a_standby_under_jobs_in_flight(
    tmp_path: Path, require_server: Callable[[str], Path], measured: Measured, trouble: str
) -> None:
    """Each of them runs once and is settled on the new primary. The old one waits for the standby
    at each commit: what was acknowledged is there."""
    require_server(services.Postgres.program)
    with ExitStack() as stack:
        primary = stack.enter_context(services.Postgres())
        standby = stack.enter_context(services.Standby(primary))
        primary.query("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.query("SELECT pg_reload_conf()")
        proxy = stack.enter_context(services.Proxy(primary))
        ground = Ground(primary, proxy, proxy.through(standby.failover_url()))
        crew = Crew(tmp_path, ground.url, OPTIONS)
        stack.callback(crew.close)
        crew.start()
        with Scene(ground, crew).outage(trouble, measured) as producer:
            held = {pool: producer.long[pool].delay("held") for pool in IN_FLIGHT}
            for pool in IN_FLIGHT:
                crew.wait_for_run(pool, "held-started")
            with producer.failing():
                if trouble == "killed":
                    primary.kill()
                else:
                    proxy.black_hole()
            standby.promote()
            primary.kill()  # fenced: a URL of both prefers the first
            crew.go("held")
            for pool, job in held.items():
                assert job.get(60.0) == "held"
                assert job.info["deliveries"] == 1
                names = [name for ran_in, name, _ in crew.runs() if ran_in == pool]
                assert names.count("held-started") == 1


# -- behind a pooler ---------------------------------------------------------------------------


@pytest.mark.timeout(300)
def test_pgbouncer_is_restarted_and_then_the_server_behind_it(
    tmp_path: Path, require_server: Callable[[str], Path], measured: Measured
) -> None:
    require_server(services.PgBouncer.program)
    require_server(services.Postgres.program)
    with ExitStack() as stack:
        server = stack.enter_context(services.Postgres(fsync=True))
        pooler = stack.enter_context(services.PgBouncer(server))
        proxy = stack.enter_context(services.Proxy(pooler))
        ground = Ground(pooler, proxy, f"{proxy.url}?pooler=transaction")
        crew = Crew(tmp_path, ground.url, OPTIONS)
        stack.callback(crew.close)
        crew.start()
        for hurt in (pooler, server):
            with Scene(ground, crew).outage(hurt.program, measured) as producer:
                with producer.failing():
                    hurt.kill()
                hurt.start()
