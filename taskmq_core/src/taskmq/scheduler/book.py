"""The schedules of a store, and what became of their runs, as documents."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from taskmq.documents import Document, DocumentChange
from taskmq.ids import new_id
from taskmq.schedule import Schedule
from taskmq.transport import Documents

__all__ = ["Book", "Entry", "Journal", "Page", "Run"]

SCHEDULES = "schedule"
JOURNALS = "schedule-journal"

_encode = msgspec.json.Encoder().encode


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule, and what people decided about it.

    ``origin`` ``code``: a program defines it, and it follows that. ``added``: somebody added it.
    ``paused_by`` says who paused it, ``disabled`` why it disabled itself.
    """

    schedule: Schedule
    origin: Literal["code", "added"] = "code"
    by: str = ""
    at: float = 0.0
    paused_by: str = ""
    paused_at: float | None = None
    disabled: str = ""

    @property
    def is_active(self) -> bool:
        return self.paused_at is None and not self.disabled


class Run(msgspec.Struct, frozen=True):
    """A job that was enqueued for an instant (epoch seconds)."""

    due: float
    job_id: str


class Journal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How far a schedule has come. Written by whoever leads.

    What was due up to ``seen`` (epoch seconds) is dealt with. ``runs`` are the newest; ``skipped``
    counts those that were left out because an earlier one had not ended.
    """

    seen: float
    runs: tuple[Run, ...] = ()
    skipped: int = 0


class Page(msgspec.Struct, kw_only=True):
    """One document: an entry that cannot be read (of a later version, perhaps) says why in
    ``broken``."""

    name: str
    revision: str
    entry: Entry | None
    broken: str = ""


class Book:
    """Reads and writes them. All methods raise `TransportError`."""

    def __init__(self, store: Documents) -> None:
        self._store = store

    def pages(self, names: Sequence[str] | None = None) -> list[Page]:
        """The schedules of a store, by name."""
        return [_page(document) for document in self._store.documents(SCHEDULES, names)]

    def journals(self, names: Sequence[str] | None = None) -> dict[str, tuple[Journal, str]]:
        """How far each has come, with the revision. Unreadable ones are left out."""
        found = {}
        for document in self._store.documents(JOURNALS, names):
            try:
                journal = msgspec.json.decode(document.data, type=Journal)
            except msgspec.DecodeError:
                continue
            found[document.name] = (journal, document.revision)
        return found

    def write(self, name: str, entry: Entry | None, expected: str | None) -> bool:
        """Write, or delete, one schedule; false if it has changed meanwhile."""
        return self._store.write([_change(SCHEDULES, name, entry, expected)])[0]

    def note(self, journals: Iterable[tuple[str, Journal | None, str | None]]) -> list[bool]:
        """Write how far several have come, each with what is believed to be there."""
        changes = [_change(JOURNALS, name, journal, known) for name, journal, known in journals]
        return self._store.write(changes)

    def forget(self, name: str) -> None:
        """Delete what is known of the runs of a schedule that is no more."""
        for document in self._store.documents(JOURNALS, [name]):
            self._store.write([_change(JOURNALS, name, None, document.revision)])


def _page(document: Document) -> Page:
    try:
        entry = msgspec.json.decode(document.data, type=Entry)
    except (msgspec.DecodeError, ValueError) as error:
        broken = f"it cannot be read: {error}"
        return Page(name=document.name, revision=document.revision, entry=None, broken=broken)
    return Page(name=document.name, revision=document.revision, entry=entry)


def _change(
    kind: str, name: str, value: Entry | Journal | None, expected: str | None
) -> DocumentChange:
    data = None if value is None else _encode(value)
    return DocumentChange(kind=kind, name=name, data=data, revision=new_id(), expected=expected)
