"""From what PostgreSQL and its driver say to what the port promises: one total map."""

from __future__ import annotations

import psycopg

from taskmq.errors import (
    SchemaMismatch,
    StoreCorrupt,
    StoreFull,
    TransportError,
    TransportUnavailable,
)

from .options import Options

__all__ = ["ONCE_MORE_ALONE", "is_conflict", "spoils_connection", "translate"]

ONCE_MORE_ALONE = "TQ000"
"""Of `sql/functions/base.sql`: the transaction needs the store for itself."""

CONFLICTS = ("40001", "40P01", "55P03")  # serialization, deadlock, lock not available
EXPLANATIONS: dict[str, tuple[type[TransportError], str]] = {
    "25006": (TransportUnavailable, "is read-only (a standby?); name the primary, or several hosts"
              " and target_session_attrs=read-write"),
    "28": (TransportUnavailable, "refuses this user; check the name, the password and pg_hba.conf"),
    "3D000": (TransportUnavailable, "has no such database; create it first"),
    "42501": (TransportUnavailable, "does not permit that to this user; docs/reference/postgres.md"
              " has the grants"),
    "53300": (TransportUnavailable, "has no connection left; raise max_connections or lower "
              "?connections="),
    "53100": (StoreFull, "is full: no space left on its disk; nothing was written"),
    "53200": (StoreFull, "is out of memory; nothing was written"),
    "54": (StoreFull, "has reached one of its limits; nothing was written"),
    "57014": (TransportUnavailable, "cancelled the statement (statement_timeout, or by hand)"),
    "57P": (TransportUnavailable, "is shutting down or starting up"),
    "08": (TransportUnavailable, "cannot be reached"),
    "40": (TransportUnavailable, "had conflicts that did not end"),
    "55": (TransportUnavailable, "has locked what is needed"),
    "XX001": (StoreCorrupt, "has damaged data; restore it from a backup, or see pg_amcheck"),
    "XX002": (StoreCorrupt, "has a damaged index; run REINDEX"),
}  # fmt: skip
"""By SQLSTATE, or its beginning: https://www.postgresql.org/docs/current/errcodes-appendix.html"""
MISSING = ("3F000", "42P01", "42883", "42703", "42704")


def translate(error: psycopg.Error, options: Options) -> TransportError:
    """The error of the port that stands for any error of the driver; never raises."""
    code = error.sqlstate or ""
    said = _first_line(error)
    if code in MISSING:
        return SchemaMismatch(
            f"{options.where}: schema {options.schema!r} lacks a part of taskmq's tables and "
            f"functions ({said}); run: taskmq migrate-schema"
        )
    for length in (5, 3, 2):
        if len(code) == 5 and code[:length] in EXPLANATIONS:
            kind, text = EXPLANATIONS[code[:length]]
            return kind(f"{options.where} {text} ({said})")
    if not code and isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        return TransportUnavailable(f"{options.where} cannot be reached: {said}")
    return TransportError(f"{options.where}: unexpected error: {type(error).__name__}: {said}")


def is_conflict(error: psycopg.Error) -> bool:
    """Whether two transactions stood in each other's way: this one was undone, and may be
    repeated."""
    return error.sqlstate in CONFLICTS


def spoils_connection(error: BaseException) -> bool:
    """Whether the connection is better closed: it is broken, or leads to the wrong server."""
    if not isinstance(error, psycopg.Error):
        return True
    code = error.sqlstate or ""
    return code == "25006" or code[:2] in ("", "08", "57", "XX")


def _first_line(error: psycopg.Error) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
