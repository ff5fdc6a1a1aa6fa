"""A statement and its answer, by libpq's own calls.

psycopg's cursors are made for any program: they look at the type of each value, at what was
prepared before, at the rows as they are fetched. Our statements say their types themselves
(``%s::float8``), so that values can go as texts and bytes. docs/performance.md has what that saves.
"""

from __future__ import annotations

import re
import select
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ConnStatus, ExecStatus, Format
from psycopg.pq.abc import PGconn, PGresult

__all__ = ["Rows", "Statements", "Values"]

Rows = list[tuple[Any, ...]]
Values = Sequence[object] | Mapping[str, object]

PLACEHOLDER = re.compile(r"%s|%\((\w+)\)s")
MOST_PREPARED = 100
"""Statements that a connection keeps prepared."""
PREPARED_FROM = 3
"""The use from which on it is: to prepare one is a round trip of its own."""
FINE = (ExecStatus.TUPLES_OK, ExecStatus.COMMAND_OK)
INPUT = select.POLLIN
NUL = "PostgreSQL's texts hold no NUL (0x00)"


class Statements:
    """Those that one connection runs, in autocommit mode: for one thread at a time."""

    def __init__(self, connection: psycopg.Connection[Any], *, prepare: bool) -> None:
        self._server: PGconn = connection.pgconn
        self._encoding = connection.info.encoding
        self._reader = Transformer(connection)
        self._prepare = prepare
        self._uses: dict[str, int] = {}
        self._names: dict[str, bytes] = {}
        self._patience = self._deadline = 0.0
        self._poll = select.poll()
        self._poll.register(connection.fileno(), INPUT)

    def is_quiet(self) -> bool:
        """Whether nothing came while it was idle: if something did, it is the end."""
        return not self._poll.poll(0)

    def run(self, statement: str, values: Values, patience: float) -> Rows:
        """The rows of a statement, whose answer is waited for so many seconds. Raises
        ``psycopg.Error``; if it came too late, the connection cannot be used any more."""
        self._patience, self._deadline = patience, time.monotonic() + patience
        numbered, order = _numbered(statement)
        if isinstance(values, Mapping):
            values = [values[name] for name in order]
        sent, formats = _sendable(values)
        server = self._server
        name = self._names.get(statement)
        if name is None and self._prepare:
            name = self._prepared(statement, numbered)
        if name is None:
            server.send_query_params(numbered, sent, None, formats, Format.BINARY)
        else:
            server.send_query_prepared(name, sent, formats, Format.BINARY)
        answer = self._answer()
        reader = self._reader
        reader.set_pgresult(answer, set_loaders=True, format=Format.BINARY)
        return reader.load_rows(0, answer.ntuples, tuple)

    def _prepared(self, statement: str, numbered: bytes) -> bytes | None:
        """The name of a statement that is used again and again."""
        uses = self._uses.get(statement, 0) + 1
        if uses == 1 and len(self._uses) == MOST_PREPARED:
            return None
        self._uses[statement] = uses
        if uses < PREPARED_FROM:
            return None
        name = b"taskmq_%d" % len(self._names)
        self._server.send_prepare(name, numbered)
        self._answer()
        self._names[statement] = name
        return name

    def _answer(self) -> PGresult:
        server = self._server
        if server.flush():
            self._send_on()
        self._wait()
        server.consume_input()
        answer = self._next()
        if answer is None:
            raise psycopg.OperationalError("the server gave no answer")
        # Of one that was lost libpq gives results without end.
        while server.status != ConnStatus.BAD and self._next() is not None:
            pass
        if answer.status not in FINE:
            raise error_from_result(answer, self._encoding)
        return answer

    def _next(self) -> PGresult | None:
        while self._server.is_busy():
            self._wait()
            self._server.consume_input()
        return self._server.get_result()

    def _send_on(self) -> None:
        """More than fits into the socket at once. The server may have something to say, too."""
        poll, socket = self._poll, self._server.socket
        poll.modify(socket, INPUT | select.POLLOUT)
        try:
            while self._server.flush():
                if self._wait() & ~select.POLLOUT:
                    self._server.consume_input()
        finally:
            poll.modify(socket, INPUT)

    def _wait(self) -> int:
        """What the socket is ready for."""
        ready = self._poll.poll(max(0.0, self._deadline - time.monotonic()) * 1000)
        if not ready:
            raise psycopg.OperationalError(f"no answer within {self._patience:g} seconds")
        return ready[0][1]


@lru_cache(maxsize=256)
def _numbered(statement: str) -> tuple[bytes, tuple[str, ...]]:
    """With ``$1`` in place of ``%s``; names in the order of their numbers."""
    names: dict[str, int] = {}

    def number(match: re.Match[str]) -> str:
        name = match[1] or f"%{len(names)}"
        return f"${names.setdefault(name, len(names) + 1)}"

    text = PLACEHOLDER.sub(number, statement)
    return text.encode(), tuple(names)


def _sendable(values: Sequence[object]) -> tuple[list[bytes | None], list[Format]]:
    """As libpq takes them: bytes as such, all else as text."""
    sent: list[bytes | None] = []
    formats: list[Format] = []
    for value in values:
        how = Format.TEXT
        if value is None:
            sent.append(None)
        elif value is True or value is False:
            sent.append(b"t" if value else b"f")
        elif isinstance(value, bytes):
            sent.append(value)
            how = Format.BINARY
        else:
            text = (value if isinstance(value, str) else repr(value)).encode()
            if b"\0" in text:
                raise psycopg.DataError(NUL)
            sent.append(text)
        formats.append(how)
    return sent, formats
