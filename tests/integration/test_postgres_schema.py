"""The schema: made on first use, brought up to date by command, refused when it does not fit."""

from __future__ import annotations

import threading

import psycopg
import pytest

from taskmq.cli.main import main
from taskmq.clock import SystemClock
from taskmq.envelope import Envelope, seal
from taskmq.errors import SchemaMismatch, TransportUnavailable
from taskmq.transports.postgres import from_url
from taskmq.transports.postgres.schema import VERSION


def first_call(url: str) -> None:
    store = from_url(url, clock=SystemClock())
    try:
        store.paused()
    finally:
        store.close()


def execute(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement)


def test_several_make_it_at_once(postgres_url: str) -> None:
    errors: list[Exception] = []

    def make() -> None:
        try:
            first_call(f"{postgres_url}?timeout=60")
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert errors == []


def test_schemas_are_apart(postgres_url: str) -> None:
    one = from_url(f"{postgres_url}?schema=one", clock=SystemClock())
    two = from_url(f"{postgres_url}?schema=two", clock=SystemClock())
    one.enqueue([seal(Envelope(v=1, id="a", task="t", queue="q"), limit=1000)])
    assert len(one.stats()) == 1
    assert two.stats() == []
    one.close()
    two.close()


def test_command_makes_it_and_checks(postgres_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"{postgres_url}?create=off"
    with pytest.raises(SchemaMismatch, match="run: taskmq migrate-schema"):
        first_call(url)
    assert main(["migrate-schema", "--check", "--transport", url]) == 1
    assert "to run: 0001_tables.sql" in capsys.readouterr().out
    assert main(["migrate-schema", "--transport", url]) == 0
    assert f"now there is version {VERSION}" in capsys.readouterr().out
    assert main(["migrate-schema", "--check", "--transport", url]) == 0
    first_call(url)


def test_command_has_nothing_to_do_elsewhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["migrate-schema", "--transport", "memory://"]) == 0
    assert "Nothing to do" in capsys.readouterr().out


def test_older_schema_names_the_command(postgres_url: str) -> None:
    first_call(postgres_url)
    execute(postgres_url, "UPDATE taskmq.meta SET version = 0")
    with pytest.raises(SchemaMismatch, match=f"needs {VERSION}; run: taskmq migrate-schema"):
        first_call(postgres_url)


def test_later_schema_is_used_while_it_says_so(postgres_url: str) -> None:
    first_call(postgres_url)
    execute(postgres_url, f"UPDATE taskmq.meta SET version = {VERSION + 5}")  # noqa: S608
    first_call(postgres_url)
    execute(postgres_url, f"UPDATE taskmq.meta SET oldest_user = {VERSION + 1}")  # noqa: S608
    with pytest.raises(SchemaMismatch, match="upgrade taskmq here"):
        first_call(postgres_url)


def test_lost_tables_name_the_command(postgres_url: str) -> None:
    store = from_url(postgres_url, clock=SystemClock())
    store.paused()
    execute(postgres_url, "DROP TABLE taskmq.paused")
    with pytest.raises(SchemaMismatch, match="taskmq migrate-schema"):
        store.paused()
    store.close()


def test_user_with_the_documented_grants_can_do_everything(postgres_url: str) -> None:
    first_call(postgres_url)
    name = f"app_{id(postgres_url)}"
    for statement in (
        f"CREATE ROLE {name} LOGIN",
        f"GRANT USAGE ON SCHEMA taskmq TO {name}",
        f"GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA taskmq TO {name}",
        f"GRANT USAGE ON ALL SEQUENCES IN SCHEMA taskmq TO {name}",
    ):
        execute(postgres_url, statement)
    store = from_url(postgres_url.replace("postgres@", f"{name}@"), clock=SystemClock())
    store.enqueue([seal(Envelope(v=1, id="a", task="t", queue="q"), limit=1000)])
    listener = store.listen(["q"])
    assert store.purge("q") == 1
    store.maintain()
    listener.close()
    store.close()
    execute(postgres_url, f"REVOKE INSERT ON taskmq.jobs FROM {name}")
    store = from_url(postgres_url.replace("postgres@", f"{name}@"), clock=SystemClock())
    with pytest.raises(TransportUnavailable, match="does not permit"):
        store.enqueue([seal(Envelope(v=1, id="b", task="t", queue="q"), limit=1000)])
    store.close()
    execute(postgres_url, f"DROP OWNED BY {name}; DROP ROLE {name}")


def test_no_plan_is_compiled(postgres_url: str) -> None:
    """A kind of plan that is switched off counts as very dear where there is no other. Compiled to
    machine code for that, housekeeping of an empty store took a second."""
    first_call(postgres_url)
    with psycopg.connect(postgres_url) as connection:
        rows = connection.execute(
            "SELECT proname::text FROM pg_proc WHERE 'enable_hashjoin=off' = ANY (proconfig) "
            "AND NOT 'jit=off' = ANY (proconfig)"
        ).fetchall()
    assert rows == []
