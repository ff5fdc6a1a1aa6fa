"""Connections of the caller, in whose transaction a job is to be stored: from what programs have at
hand (a driver's connection, SQLAlchemy's or Django's) to the driver's connection."""

from __future__ import annotations

from typing import Any

from taskmq.errors import ConfigError

__all__ = ["driver_connection"]


def driver_connection(connection: Any) -> Any:
    """The driver's connection, in a transaction wherever a library manages those.

    Raises `ConfigError` for what is no connection, or one that commits by itself.
    """
    if hasattr(connection, "get_bind") and callable(getattr(connection, "connection", None)):
        connection = connection.connection()  # SQLAlchemy's Session: begins its transaction
    if hasattr(connection, "exec_driver_sql"):
        return _of_sqlalchemy(connection)
    if hasattr(connection, "ensure_connection"):
        return _of_django(connection)
    if not callable(getattr(connection, "cursor", None)):
        raise ConfigError(
            f"connection= must be a database connection of psycopg, sqlite3, SQLAlchemy or Django, "
            f"got {type(connection).__module__}.{type(connection).__qualname__}"
        )
    return connection


def _of_sqlalchemy(connection: Any) -> Any:
    if not hasattr(connection, "in_transaction"):
        raise ConfigError("connection= must be a SQLAlchemy Connection or Session, not an Engine")
    if not connection.in_transaction():
        connection.begin()  # as its own first statement would
    return connection.connection.driver_connection


def _of_django(connection: Any) -> Any:
    connection.ensure_connection()
    if not connection.in_atomic_block:
        raise ConfigError(
            "connection= is Django's and in no transaction: submit within transaction.atomic()"
        )
    return connection.connection
