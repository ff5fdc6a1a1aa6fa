"""The schema in the database: made, brought up to date, and checked.

Tables change by numbered migrations (``sql/NNNN_name.sql``), which must not keep workers waiting;
functions (``sql/functions``) are replaced as a whole with each of them. A store says which version
it has, and the oldest version of taskmq's schema whose programs can still use it.
"""

from __future__ import annotations

import re

import psycopg
from psycopg import sql

from taskmq.errors import SchemaMismatch
from taskmq.transports._files import read_text

from .errors import translate
from .options import Options

__all__ = ["VERSION", "check", "for_schema", "migrate", "migrate_schema"]

PACKAGE = __package__
FUNCTIONS = (
    "base", "rows", "dependencies", "gates", "fair",
    "enqueue", "workflows", "settle", "tidy", "claim", "exchange", "reserve", "upkeep",
)  # fmt: skip
OLDEST_USER = 1
"""Programs with an older schema version than this cannot use a store of ours."""
NAME = re.compile(r"\btaskmq\.|'taskmq'")

MIGRATIONS = {1: "0001_tables.sql"}
"""By the version that they make."""
VERSION = max(MIGRATIONS)


def check(connection: psycopg.Connection[tuple[int, int]], options: Options) -> None:
    """Make a missing schema, where that is wanted; refuse what we cannot work with.

    Raises `SchemaMismatch`.
    """
    found = _found(connection, options.schema)
    if found is None:
        if not options.create:
            raise SchemaMismatch(
                f"{options.where} has no schema {options.schema!r} of taskmq, and ?create=off "
                "forbids to make it; run: taskmq migrate-schema"
            )
        migrate(connection, options)
        return
    version, oldest_user = found
    if version < VERSION:
        raise SchemaMismatch(
            f"{options.where}: schema {options.schema!r} has version {version}, this taskmq needs "
            f"{VERSION}; run: taskmq migrate-schema"
        )
    if oldest_user > VERSION:
        raise SchemaMismatch(
            f"{options.where}: schema {options.schema!r} has version {version}, which taskmq's of "
            f"version {oldest_user} and later can use, and this one is {VERSION}; upgrade taskmq "
            "here (taskmq migrate-schema was run by a later one)"
        )


def migrate(connection: psycopg.Connection[tuple[int, int]], options: Options) -> list[str]:
    """Create the schema, or bring it up to date, in one transaction; the files that were run.

    Several processes may do so at once: they wait for each other.
    """
    name = options.schema
    ran: list[str] = []
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(hashtext(%s), 3)", (name,))
        found = _found(connection, name)
        if found is not None and found[0] >= VERSION:
            return ran
        if found is None:
            if not _exists(connection, name):
                connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
            connection.execute(
                for_schema(
                    "CREATE TABLE taskmq.meta (version integer NOT NULL, oldest_user integer NOT "
                    "NULL); INSERT INTO taskmq.meta VALUES (0, 0)",
                    name,
                )
            )
        for number, file in MIGRATIONS.items():
            if found is None or number > found[0]:
                connection.execute(for_schema(read_text(PACKAGE, f"sql/{file}"), name))
                ran.append(file)
        for file in FUNCTIONS:
            connection.execute(for_schema(read_text(PACKAGE, f"sql/functions/{file}.sql"), name))
        connection.execute(
            for_schema("UPDATE taskmq.meta SET version = %s, oldest_user = %s", name),
            (VERSION, OLDEST_USER),
        )
    return ran


def migrate_schema(
    options: Options, *, check_only: bool = False
) -> tuple[int | None, int, list[str]]:
    """What ``taskmq migrate-schema`` does: the version found (``None``: no schema), ours, and the
    files that were run, or would be.

    Raises a `TransportError`.
    """
    try:
        connection: psycopg.Connection[tuple[int, int]]
        with psycopg.connect(
            options.conninfo, autocommit=True, prepare_threshold=None
        ) as connection:
            found = _found(connection, options.schema)
            version = None if found is None else found[0]
            if check_only:
                missing = [file for number, file in MIGRATIONS.items() if number > (version or 0)]
                return version, VERSION, missing
            return version, VERSION, migrate(connection, options)
    except psycopg.Error as error:
        raise translate(error, options) from error


def _found(connection: psycopg.Connection[tuple[int, int]], schema: str) -> tuple[int, int] | None:
    """The version of a schema and its oldest user; ``None`` if taskmq is not in it."""
    name = sql.Identifier(schema, "meta")
    try:
        with connection.transaction():
            return connection.execute(
                sql.SQL("SELECT version, oldest_user FROM {}").format(name)
            ).fetchone()
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName):
        return None


def _exists(connection: psycopg.Connection[tuple[int, int]], schema: str) -> bool:
    query = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
    return connection.execute(query, (schema,)).fetchone() is not None


def for_schema(text: str, schema: str) -> str:
    """A script that was written for schema ``taskmq``, for another one."""
    quoted = {"taskmq.": f'"{schema}".', "'taskmq'": f"'{schema}'"}
    return NAME.sub(lambda match: quoted[match[0]], text)
