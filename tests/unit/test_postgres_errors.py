"""Every error of the driver becomes one of the port's, in one line without a password."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from taskmq.errors import (
    SchemaMismatch,
    StoreCorrupt,
    StoreFull,
    TransportError,
    TransportUnavailable,
)
from taskmq.transports.postgres.errors import is_conflict, spoils_connection, translate
from taskmq.transports.postgres.options import parse

OPTIONS = parse("postgresql://app:secret@db/jobs")


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.ReadOnlySqlTransaction("read-only"), TransportUnavailable),
        (errors.InvalidPassword("wrong"), TransportUnavailable),
        (errors.InvalidCatalogName("no database"), TransportUnavailable),
        (errors.InsufficientPrivilege("denied"), TransportUnavailable),
        (errors.TooManyConnections("too many"), TransportUnavailable),
        (errors.AdminShutdown("going"), TransportUnavailable),
        (errors.CannotConnectNow("starting"), TransportUnavailable),
        (errors.QueryCanceled("cancelled"), TransportUnavailable),
        (errors.DeadlockDetected("deadlock"), TransportUnavailable),
        (errors.DiskFull("no space"), StoreFull),
        (errors.OutOfMemory("no memory"), StoreFull),
        (errors.ProgramLimitExceeded("too large"), StoreFull),
        (errors.UndefinedTable("no jobs"), SchemaMismatch),
        (errors.UndefinedFunction("no exchange"), SchemaMismatch),
        (errors.DataCorrupted("bad page"), StoreCorrupt),
        (errors.SyntaxError("ours"), TransportError),
        (psycopg.OperationalError("connection refused"), TransportUnavailable),
        (psycopg.InterfaceError("closed"), TransportUnavailable),
    ],
)
def test_each_has_its_kind(error: psycopg.Error, kind: type[TransportError]) -> None:
    told = translate(error, OPTIONS)
    assert type(told) is kind
    assert "\n" not in str(told)
    assert "secret" not in str(told)


def test_a_missing_schema_names_the_command() -> None:
    told = translate(errors.UndefinedTable("no jobs"), OPTIONS)
    assert "taskmq migrate-schema" in str(told)


def test_conflicts_are_repeated_on_the_same_connection() -> None:
    deadlock = errors.DeadlockDetected("deadlock")
    assert is_conflict(deadlock)
    assert not spoils_connection(deadlock)


def test_a_read_only_server_is_left() -> None:
    assert spoils_connection(errors.ReadOnlySqlTransaction("standby"))
    assert spoils_connection(psycopg.OperationalError("lost"))
    assert not spoils_connection(errors.UniqueViolation("twice"))
