"""Every error of SQLite becomes one of the port, and says what to do."""

import ctypes.util
import sqlite3
import sys
from pathlib import Path

import pytest

from taskmq.errors import StoreCorrupt, StoreFull, TransportError, TransportUnavailable
from taskmq.transports.sqlite import errors

PATH = Path("/srv/jobs.db")

KINDS = [
    (errors.BUSY, "database is locked", TransportUnavailable, "another process"),
    (errors.LOCKED, "database table is locked", TransportUnavailable, "busy_timeout"),
    (errors.PROTOCOL, "locking protocol", TransportUnavailable, "busy_timeout"),
    (errors.READONLY, "attempt to write a readonly database", TransportUnavailable, "writable"),
    (errors.IOERR, "disk I/O error", TransportUnavailable, "check the disk"),
    (errors.CANTOPEN, "unable to open database file", TransportUnavailable, "directory exists"),
    (errors.FULL, "database or disk is full", StoreFull, "nothing was written"),
    (errors.CORRUPT, "database disk image is malformed", StoreCorrupt, ".recover | sqlite3"),
    (errors.NOTADB, "file is not a database", StoreCorrupt, ".recover | sqlite3"),
    (None, "no such table: jobs", StoreCorrupt, "another program changed it"),
]


def raised(text: str, code: int | None = None) -> sqlite3.Error:
    error = sqlite3.OperationalError(text)
    if code is not None:
        vars(error)["sqlite_errorcode"] = code
    return error


@pytest.mark.parametrize(("code", "text", "kind", "says"), KINDS)
def test_an_error_is_known_by_its_code(
    code: int | None, text: str, kind: type[TransportError], says: str
) -> None:
    error = errors.translate(raised(text if code is None else "?", code), PATH)
    assert type(error) is kind
    assert str(error).startswith(str(PATH))
    assert says in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize(("code", "text", "kind", "says"), KINDS)
def test_an_error_is_known_by_its_text_where_python_has_no_codes(
    code: int | None, text: str, kind: type[TransportError], says: str
) -> None:
    error = errors.translate(raised(text), PATH)
    assert (type(error), says in str(error)) == (kind, True)


def test_the_map_is_total() -> None:
    for code in range(256):
        error = errors.translate(raised("whatever", code), PATH)
        assert isinstance(error, TransportError)
        assert "jobs.db" in str(error)


def test_extended_codes_count_as_their_primary_code() -> None:
    busy_snapshot = errors.BUSY | 2 << 8
    assert isinstance(errors.translate(raised("?", busy_snapshot), PATH), TransportUnavailable)


@pytest.mark.parametrize(
    "error", [sqlite3.ProgrammingError("x"), sqlite3.InterfaceError("x"), sqlite3.Error("x")]
)
def test_other_kinds_of_errors_are_translated_too(error: sqlite3.Error) -> None:
    assert "unexpected SQLite error" in str(errors.translate(error, PATH))


@pytest.mark.skipif(
    sys.platform != "linux" or ctypes.util.find_library("sqlite3") is None,
    reason="needs SQLite as a shared library to ask",
)
def test_the_texts_are_those_of_sqlite() -> None:
    library = ctypes.CDLL(ctypes.util.find_library("sqlite3"))
    library.sqlite3_errstr.restype = ctypes.c_char_p
    texts = {code: library.sqlite3_errstr(code).decode() for code in errors.MESSAGES.values()}
    known = {code: text for text, code in errors.MESSAGES.items() if "schema" not in text}
    assert texts == known


def test_only_what_may_have_broken_it_costs_the_connection() -> None:
    assert not errors.spoils_connection(raised("?", errors.BUSY))
    assert not errors.spoils_connection(raised("?", errors.FULL))
    assert errors.spoils_connection(raised("?", errors.CORRUPT))
    assert errors.spoils_connection(raised("?", errors.IOERR))
