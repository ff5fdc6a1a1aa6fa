"""Statements on a connection of the caller, as part of whose transaction they take effect."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row

from taskmq.errors import ConfigError
from taskmq.transports._callers import driver_connection

from .database import Database, Rows
from .errors import translate

__all__ = ["CallersConnection"]

DRIVERS = ("psycopg", "psycopg2")
ALONE = "the connection is in autocommit mode and in no transaction: begin one first"


class CallersConnection:
    """Runs statements on what the caller passed. Raises `ConfigError` if that cannot be."""

    def __init__(self, database: Database, connection: object) -> None:
        self._database = database
        self._driver: Any = driver_connection(connection)
        module = type(self._driver).__module__.partition(".")[0]
        if module not in DRIVERS or isinstance(self._driver, psycopg.AsyncConnection):
            raise ConfigError(
                "connection= must lead to the store's database through psycopg (not its asyncio "
                f"connections) or psycopg2, got one of {module}"
            )
        if _commits_by_itself(self._driver):
            raise ConfigError(f"connection=: {ALONE}")

    def execute(self, statement: str, values: Sequence[object]) -> Rows:
        """The rows of a statement. It never waits for, nor ends, the caller's transaction."""
        named = self._database.named(statement)
        try:
            if isinstance(self._driver, psycopg.Connection):
                with self._driver.cursor(row_factory=tuple_row) as cursor:
                    return cursor.execute(named, values, prepare=False).fetchall()
            other = self._driver.cursor()
            try:
                other.execute(named, tuple(values))
                return [_plain(row) for row in other.fetchall()]
            finally:
                other.close()
        except psycopg.Error as error:
            raise translate(error, self._database.options) from error


def _commits_by_itself(driver: Any) -> bool:
    if isinstance(driver, psycopg.Connection):
        return driver.autocommit and driver.info.transaction_status == TransactionStatus.IDLE
    status = getattr(driver, "get_transaction_status", None)  # psycopg2
    return bool(getattr(driver, "autocommit", False)) and (status is None or status() == 0)


def _plain(row: Any) -> tuple[Any, ...]:
    return tuple(row.values()) if isinstance(row, dict) else tuple(row)
