"""The PostgreSQL transport keeps every promise there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import psycopg
import pytest
from tests.services import Postgres

from taskmq.plugins import open_transport
from taskmq.testing.conformance import Case, cases

SCHEMA = "cases"


@pytest.fixture(scope="module")
def database_url(postgres_server: Postgres) -> Iterator[str]:
    """A database with the schema in it. Making one takes longer than most cases."""
    name = "conformance"
    url = f"{postgres_server.create_database(name)}?schema={SCHEMA}&timeout=60"
    store = open_transport(url)
    store.paused()
    store.close()
    yield url
    postgres_server.drop_database(name)


@pytest.fixture
def empty_url(database_url: str) -> str:
    """The same, with nothing in it."""
    with psycopg.connect(database_url.partition("?")[0], autocommit=True) as connection:
        rows = connection.execute(
            "SELECT format('%%I.%%I', schemaname, tablename) FROM pg_tables "
            "WHERE schemaname = %s AND tablename <> 'meta'",
            (SCHEMA,),
        ).fetchall()
        for (table,) in rows:
            connection.execute(f"DELETE FROM {table}")  # noqa: S608  # quoted
    return database_url


@pytest.mark.parametrize("case", cases(), ids=str)
def test_postgres(case: Case, conform: Callable[[Case, str], None], empty_url: str) -> None:
    conform(case, f"{empty_url}&application_name={{case}}")
