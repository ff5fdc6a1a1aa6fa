"""The PostgreSQL transport keeps every promise there is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import psycopg
import pytest
from tests.services import Postgres

from taskmq.plugins import open_transport
from taskmq.testing.conformance import Case, cases

SCHEMA = "cases"
TABLES = """
SELECT format('DELETE FROM %%I.%%I', schemaname, tablename) FROM pg_tables
WHERE schemaname = %s AND tablename <> 'meta'
"""


@pytest.fixture(scope="module")
def database_url(postgres_server: Postgres) -> Iterator[str]:
    """A database with the schema in it. Making one takes longer than most cases."""
    name = f"conformance_{os.getpid()}"  # several processes run tests
    url = f"{postgres_server.create_database(name)}?schema={SCHEMA}&timeout=60"
    store = open_transport(url)
    store.paused()
    store.close()
    yield url
    postgres_server.drop_database(name)


@pytest.fixture(scope="module")
def empty(database_url: str) -> Iterator[Callable[[], None]]:
    """Delete everything: one statement on a connection that is there."""
    with psycopg.connect(database_url.partition("?")[0], autocommit=True) as connection:
        deletes = [delete for (delete,) in connection.execute(TABLES, (SCHEMA,)).fetchall()]

        def delete_everything() -> None:
            connection.execute("; ".join(deletes))

        yield delete_everything


@pytest.mark.parametrize("case", cases(), ids=str)
def test_postgres(
    case: Case,
    conform: Callable[[Case, str], None],
    database_url: str,
    empty: Callable[[], None],
) -> None:
    empty()
    conform(case, f"{database_url}&application_name={{case}}")
