"""Statements by libpq's own calls: values of any kind, what is prepared, answers that are late."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from taskmq.transports.postgres.statements import MOST_PREPARED, Statements

PREPARED = "SELECT count(*) FROM pg_prepared_statements"


@pytest.fixture
def connection(postgres_url: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
        yield connection


@pytest.fixture
def statements(connection: psycopg.Connection[tuple[object, ...]]) -> Statements:
    return Statements(connection, prepare=True)


def test_values_of_every_kind_come_back(statements: Statements) -> None:
    query = (
        "SELECT %s::text, %s::bytea, %s::int, %s::bigint, %s::float8, %s::bool, %s::text[], %s::int"
    )
    given = ('é "quoted" $1 \\', b"\0\xff", -7, 1 << 40, 0.1, False, '{"a","b"}', None)
    wanted = (*given[:6], ["a", "b"], None)
    assert [statements.run(query, given, 5.0) for _ in range(3)] == [[wanted]] * 3


def test_values_go_by_their_names(statements: Statements) -> None:
    query = "SELECT %(b)s::int - %(a)s::int, %(b)s::int"
    assert statements.run(query, {"a": 2, "b": 5, "more": 1}, 5.0) == [(3, 5)]


def test_many_rows_and_none(statements: Statements) -> None:
    query = "SELECT n, 'x' FROM generate_series(1, %s::int) AS n"
    assert statements.run(query, (3,), 5.0) == [(1, "x"), (2, "x"), (3, "x")]
    assert statements.run(query, (0,), 5.0) == []
    assert statements.run("CREATE TABLE numbers (n int)", (), 5.0) == []


def test_more_than_a_socket_takes_at_once(statements: Statements) -> None:
    data = bytes(range(256)) * (64 << 10)
    assert statements.run("SELECT %s::bytea", (data,), 30.0) == [(data,)]


def test_a_statement_is_prepared_when_it_is_used_the_third_time(statements: Statements) -> None:
    for number, prepared in enumerate((0, 0, 2, 2)):  # this one, too
        assert statements.run("SELECT %s::int", (number,), 5.0) == [(number,)]
        assert statements.run(PREPARED, (), 5.0) == [(prepared,)]


def test_no_more_are_prepared_than_a_connection_may_keep(statements: Statements) -> None:
    for number in range(MOST_PREPARED + 5):
        for _ in range(3):
            assert statements.run(f"SELECT {number}", (), 5.0) == [(number,)]
    assert statements.run(PREPARED, (), 5.0) == [(MOST_PREPARED,)]


def test_behind_a_pooler_nothing_is_prepared(
    connection: psycopg.Connection[tuple[object, ...]],
) -> None:
    statements = Statements(connection, prepare=False)
    for _ in range(4):
        assert statements.run(PREPARED, (), 5.0) == [(0,)]


def test_an_error_of_the_server_leaves_the_connection_as_it_was(statements: Statements) -> None:
    for _ in range(3):
        with pytest.raises(psycopg.errors.DivisionByZero) as caught:
            statements.run("SELECT 1 / %s::int", (0,), 5.0)
        assert caught.value.sqlstate == "22012"
        assert statements.run("SELECT 1 / %s::int", (1,), 5.0) == [(1,)]


def test_text_with_a_nul_is_refused(statements: Statements) -> None:
    with pytest.raises(psycopg.DataError, match="NUL"):
        statements.run("SELECT %s::text", ("a\0b",), 5.0)
    assert statements.run("SELECT %s::text", ("ab",), 5.0) == [("ab",)]


def test_an_answer_that_is_late_is_not_waited_for(
    statements: Statements, connection: psycopg.Connection[tuple[object, ...]]
) -> None:
    assert statements.run("SELECT 1", (), 5.0) == [(1,)]
    with pytest.raises(psycopg.OperationalError, match="no answer within"):
        statements.run("SELECT pg_sleep(60)", (), 0.05)
    assert connection.pgconn.transaction_status == TransactionStatus.ACTIVE


def test_a_session_that_was_ended_is_noticed(
    statements: Statements, connection: psycopg.Connection[tuple[object, ...]], postgres_url: str
) -> None:
    assert statements.is_quiet()
    with psycopg.connect(postgres_url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (connection.info.backend_pid,))
    assert not statements.is_quiet()
    with pytest.raises(psycopg.OperationalError):
        statements.run("SELECT 1", (), 5.0)
