"""Documents: small things that programs share."""

from __future__ import annotations

from collections.abc import Sequence

from taskmq.documents import Document, DocumentChange

from .server import Server
from .wire import raw_bytes

__all__ = ["read", "write"]


def read(server: Server, kind: str, names: Sequence[str] | None) -> list[Document]:
    """See `taskmq.transport.Documents.documents`."""
    key = f"documents:{kind}"
    if names is None:
        every = server.ask_pairs(key)
        return [_document(kind, name.decode(), value) for name, value in sorted(every)]
    wanted = sorted(set(names))
    found = server.ask("HMGET", key, *wanted) if wanted else []
    pairs = zip(wanted, found, strict=True)
    return [_document(kind, name, value) for name, value in pairs if value is not None]


def _document(kind: str, name: str, value: bytes) -> Document:
    length, _, rest = value.partition(b":")
    split = int(length)
    revision, data = rest[:split].decode(), rest[split:]
    return Document(kind=kind, name=name, revision=revision, data=data)


def write(server: Server, changes: Sequence[DocumentChange]) -> list[bool]:
    """See `taskmq.transport.Documents.write`."""
    every = [
        (
            change.kind,
            change.name,
            False if change.expected is None else change.expected,
            change.revision,
            *(() if change.data is None else (raw_bytes(change.data),)),
        )
        for change in changes
    ]
    return [bool(each) for each in server.run("write", {"changes": every})]
