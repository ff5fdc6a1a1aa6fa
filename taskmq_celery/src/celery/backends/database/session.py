"""Engines and sessions of SQLAlchemy, and the tables made where they are missing."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kombu.utils.compat import register_after_fork  # type: ignore[attr-defined]  # it is there
from sqlalchemy import create_engine, inspect, text
from sqlalchemy.exc import DatabaseError
from sqlalchemy.orm import declarative_base, sessionmaker
from sqlalchemy.pool import NullPool

from celery.utils.log import get_logger
from celery.utils.time import get_exponential_backoff_interval

__all__ = ("SessionManager",)

logger = get_logger(__name__)

ResultModelBase: Any = declarative_base()

PREPARE_MODELS_MAX_RETRIES = 10
"""Several workers may make the tables at once: all but one fail, and look again."""

ADDED_LATER = ("children", "stamps")
"""Columns that tables made by old versions lack."""


def _after_fork_cleanup_session(session: SessionManager) -> None:
    session._after_fork()


class SessionManager:
    """One engine for each database. ``engine_callback`` is called with every new one."""

    def __init__(self, engine_callback: Callable[[Any], Any] | None = None) -> None:
        self._engines: dict[str, Any] = {}
        self._sessions: dict[str, Any] = {}
        self.forked = False
        self.prepared = False
        self.engine_callback = engine_callback
        if register_after_fork is not None:
            register_after_fork(self, _after_fork_cleanup_session)

    def _after_fork(self) -> None:
        self.forked = True

    def get_engine(self, dburi: str, **kwargs: Any) -> Any:
        """The engine of a database; with a pool of connections in a child process only."""
        if dburi in self._engines:
            return self._engines[dburi]
        if self.forked:
            engine = create_engine(dburi, **kwargs)
        else:
            usable = {name: kwargs[name] for name in kwargs if not _of_a_pool(name)}
            engine = create_engine(dburi, poolclass=NullPool, **usable)
        self._engines[dburi] = engine
        if self.engine_callback is not None:
            self.engine_callback(engine)
        return engine

    def create_session(
        self, dburi: str, short_lived_sessions: bool = False, **kwargs: Any
    ) -> tuple[Any, Any]:
        """The engine of a database, and what makes its sessions."""
        engine = self.get_engine(dburi, **kwargs)
        if not self.forked:
            return engine, sessionmaker(bind=engine)
        if short_lived_sessions or dburi not in self._sessions:
            self._sessions[dburi] = sessionmaker(bind=engine)
        return engine, self._sessions[dburi]

    def invalidate(self, dburi: str) -> None:
        """Forget the engine of a database, and close its connections."""
        self._sessions.pop(dburi, None)
        engine = self._engines.pop(dburi, None)
        if engine is not None:
            engine.dispose()

    def prepare_models(self, engine: Any) -> None:
        """Make the tables, unless that was done."""
        if self.prepared:
            return
        for retries in range(PREPARE_MODELS_MAX_RETRIES + 1):
            try:
                ResultModelBase.metadata.create_all(engine)
                break
            except DatabaseError:
                if retries == PREPARE_MODELS_MAX_RETRIES:
                    raise
                time.sleep(get_exponential_backoff_interval(10, retries, 1000, True) / 1000)
        self._migrate_missing_columns(engine)
        self.prepared = True

    def _migrate_missing_columns(self, engine: Any) -> None:
        """Add columns that a table of an old version lacks; where that is not allowed, they are
        done without."""
        try:
            inspector = inspect(engine)
            for table in ResultModelBase.metadata.sorted_tables:
                if not inspector.has_table(table.name, schema=table.schema):
                    continue
                there = {each["name"] for each in inspector.get_columns(table.name, table.schema)}
                for column in table.columns:
                    if column.name in ADDED_LATER and column.name not in there:
                        self._add_column(engine, table, column)
        except Exception as error:
            logger.warning("Failed to look for missing columns of the result tables: %r", error)

    def _add_column(self, engine: Any, table: Any, column: Any) -> None:
        quote = engine.dialect.identifier_preparer
        kind = column.type.compile(dialect=engine.dialect)
        name = quote.format_column(column)
        statement = f"ALTER TABLE {quote.format_table(table)} ADD COLUMN {name} {kind}"
        try:
            with engine.begin() as connection:
                connection.execute(text(statement))
        except Exception as error:
            logger.warning(
                "Failed to add missing column %s to %s: %r", column.name, table.name, error
            )

    def session_factory(self, dburi: str, **kwargs: Any) -> Any:
        """A new session, with the tables there."""
        engine, session = self.create_session(dburi, **kwargs)
        self.prepare_models(engine)
        return session()


def _of_a_pool(option: str) -> bool:
    return "pool" in option or option == "max_overflow"
