"""Documents: bytes under a kind and a name, written by compare and set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from sqlite3 import Connection

from taskmq.documents import Document, DocumentChange

from .statements import DOCUMENTS as SQL

__all__ = ["read", "write"]


def read(connection: Connection, kind: str, names: Sequence[str] | None) -> list[Document]:
    """See `taskmq.transport.Documents.documents`."""
    if names is None:
        rows = connection.execute(SQL["every"], (kind,))
    else:
        rows = connection.execute(SQL["some"], (kind, json.dumps(list(names))))
    return [
        Document(kind=kind, name=name, data=data, revision=revision)
        for kind, name, data, revision in rows.fetchall()
    ]


def write(connection: Connection, changes: Sequence[DocumentChange]) -> list[bool]:
    """See `taskmq.transport.Documents.write`."""
    return [_write(connection, change) for change in changes]


def _write(connection: Connection, change: DocumentChange) -> bool:
    place = (change.kind, change.name)
    if change.data is None:
        if change.expected is None:
            return connection.execute(SQL["exists"], place).fetchone() is None
        found = connection.execute(SQL["delete"], (*place, change.expected))
    elif change.expected is None:
        found = connection.execute(SQL["create"], (*place, change.data, change.revision))
    else:
        values = (change.data, change.revision, *place, change.expected)
        found = connection.execute(SQL["replace"], values)
    return found.rowcount == 1
