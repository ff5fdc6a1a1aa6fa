"""The caller's own connection to the file, in whose transaction jobs are stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from taskmq.errors import ConfigError
from taskmq.transports._callers import driver_connection

from .errors import translate

__all__ = ["callers_connection"]


@contextmanager
def callers_connection(connection: object, path: Path) -> Iterator[sqlite3.Connection]:
    """The connection, in a transaction and ready for our statements; then as it was before.

    Raises `ConfigError` if it is none, or to another file, and a `taskmq.errors.TransportError`
    for what SQLite raises. The transaction stays open: it is the caller's.
    """
    driver = driver_connection(connection)
    if not isinstance(driver, sqlite3.Connection):
        raise ConfigError(
            f"connection= must lead to the store's file {path}, got a connection of "
            f"{type(driver).__module__}"
        )
    made_rows, made_texts = driver.row_factory, driver.text_factory
    driver.row_factory, driver.text_factory = None, str
    try:
        _check_file(driver, path)
        if not driver.in_transaction:
            if driver.isolation_level is None:
                raise ConfigError(
                    "connection=: it commits by itself and is in no transaction: BEGIN one first"
                )
            driver.execute("BEGIN IMMEDIATE")  # as its own first change would
        yield driver
    except sqlite3.Error as error:
        raise translate(error, path) from error
    finally:
        driver.row_factory, driver.text_factory = made_rows, made_texts


def _check_file(driver: sqlite3.Connection, path: Path) -> None:
    names = {file for _, name, file in driver.execute("PRAGMA database_list") if name == "main"}
    if not any(file and Path(file).samefile(path) for file in names):
        raise ConfigError(
            f"connection= must lead to the store's file {path}, got one to "
            f"{', '.join(filter(None, names)) or 'a database in memory'}"
        )
