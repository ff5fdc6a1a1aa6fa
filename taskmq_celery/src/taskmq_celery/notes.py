"""What programs note in the engine's store beside its jobs: states of their own making, groups.

A note is a document of the store with the time at which it was written; those that are older than
results are kept are deleted in passing, when others are written.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import msgspec

from taskmq.documents import DocumentChange
from taskmq.ids import new_id

from .config import result_ttl
from .engine import engine_for, translated

__all__ = ["delete", "read", "sweep", "write"]

SWEEP_EVERY = 500
"""Writes between two looks for old notes, in one process."""

TRIES = 10

_writes = itertools.count(1)


class Note(msgspec.Struct, array_like=True):
    at: float
    text: bool
    payload: bytes


_pack, _unpack = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Note).decode


def read(app: Any, kind: str, name: str) -> str | bytes | None:
    """What was written last under a name; ``None`` for nothing, or something too old."""
    with translated():
        found = engine_for(app).transport.documents(kind, [name])
    if not found:
        return None
    note = _unpack(found[0].data)
    if note.at + result_ttl(app.conf.result_expires) < time.time():
        return None
    return note.payload.decode() if note.text else note.payload


def write(app: Any, kind: str, name: str, payload: str | bytes) -> None:
    """Write a payload under a name, in place of what is there: the last writer wins."""
    text = isinstance(payload, str)
    note = Note(time.time(), text, payload.encode() if isinstance(payload, str) else bytes(payload))
    _put(app, kind, name, _pack(note))
    if next(_writes) % SWEEP_EVERY == 0:
        sweep(app, kind)


def delete(app: Any, kind: str, name: str) -> None:
    """Delete what is written under a name."""
    _put(app, kind, name, None)


def sweep(app: Any, kind: str) -> int:
    """Delete what is too old; how much that was."""
    oldest = time.time() - result_ttl(app.conf.result_expires)
    with translated():
        transport = engine_for(app).transport
        changes = [
            DocumentChange(
                kind=kind, name=one.name, data=None, revision=new_id(), expected=one.revision
            )
            for one in transport.documents(kind)
            if _unpack(one.data).at < oldest
        ]
        return sum(transport.write(changes)) if changes else 0


def _put(app: Any, kind: str, name: str, data: bytes | None) -> None:
    with translated():
        transport = engine_for(app).transport
        for _ in range(TRIES):
            found = transport.documents(kind, [name])
            if data is None and not found:
                return
            change = DocumentChange(
                kind=kind,
                name=name,
                data=data,
                revision=new_id(),
                expected=found[0].revision if found else None,
            )
            if transport.write([change])[0]:
                return
