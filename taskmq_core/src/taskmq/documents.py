"""Small documents that the programs of a store share: schedules, for instance.

A store keeps their bytes and compares their revisions; what they mean is their readers' business.
"""

from __future__ import annotations

import msgspec

__all__ = ["Document", "DocumentChange"]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored under a name, within its kind. ``revision`` is what the last writer called
    it."""

    kind: str
    name: str
    data: bytes
    revision: str


class DocumentChange(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody wants to write, and what they believe is there.

    ``revision`` is new with every write (`taskmq.ids.new_id`); it takes effect only where
    ``expected`` is the one that is stored, ``None`` meaning that there must be no such document.
    ``data`` of ``None`` deletes it.
    """

    kind: str
    name: str
    data: bytes | None
    revision: str
    expected: str | None
