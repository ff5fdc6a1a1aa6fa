"""The schedules of a store, and what became of their runs, as documents."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from taskmq.documents import Document, DocumentChange
from taskmq.errors import TaskmqError
from taskmq.ids import new_id
from taskmq.schedule import Schedule
from taskmq.transport import Documents

from .template import Template

__all__ = ["Book", "Entry", "Journal", "Page", "Run"]

SCHEDULES = "schedule"
JOURNALS = "schedule-journal"

_encode = msgspec.json.Encoder().encode


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule, and what people decided about it.

    ``origin`` ``code``: ``program`` defines it, and it follows that. ``added``: somebody (``by``)
    added it. Either was last written ``at``; what was due before ``since``, when its rule was
    given, does not count. ``template`` is what its runs are made of; where there is none,
    ``disabled`` says why. ``paused_by`` says who paused it.
    """

    schedule: Schedule
    template: Template | None = None
    origin: Literal["code", "added"] = "code"
    program: str = ""
    by: str = ""
    at: float = 0.0
    since: float = 0.0
    paused_by: str = ""
    paused_at: float | None = None
    disabled: str = ""

    @property
    def is_active(self) -> bool:
        """Whether its runs are enqueued."""
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

    def changed(self, known: Sequence[Page]) -> list[Page] | None:
        """The schedules of a store, if they are not those that are known; only what is new is
        decoded."""
        before = {(page.name, page.revision): page for page in known}
        documents = self._store.documents(SCHEDULES)
        keys = [(each.name, each.revision) for each in documents]
        if keys == list(before):
            return None
        return [before.get(key) or _page(each) for key, each in zip(keys, documents, strict=True)]

    def journals(self, names: Sequence[str] | None = None) -> dict[str, tuple[Journal | None, str]]:
        """How far each has come, with the revision; ``None`` for one that cannot be read."""
        found: dict[str, tuple[Journal | None, str]] = {}
        for document in self._store.documents(JOURNALS, names):
            journal = None
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                journal = msgspec.json.decode(document.data, type=Journal)
            found[document.name] = (journal, document.revision)
        return found

    def write(self, name: str, entry: Entry | None, expected: str | None) -> bool:
        """Write, or delete, one schedule; false if it has changed meanwhile."""
        return self._store.write([_change(SCHEDULES, name, entry, expected)])[0]

    def note(self, journals: Iterable[tuple[str, Journal | None, str | None]]) -> list[bool]:
        """Write how far several have come, each with what is believed to be there."""
        changes = [_change(JOURNALS, name, journal, known) for name, journal, known in journals]
        return self._store.write(changes) if changes else []

    def forget(self, name: str) -> None:
        """Delete what is known of the runs of a schedule that is no more."""
        self.note((name, None, each.revision) for each in self._store.documents(JOURNALS, [name]))


def _page(document: Document) -> Page:
    try:
        entry = msgspec.json.decode(document.data, type=Entry)
    except (msgspec.DecodeError, UnicodeDecodeError, TaskmqError) as error:
        broken = f"it cannot be read: {error}"
        return Page(name=document.name, revision=document.revision, entry=None, broken=broken)
    return Page(name=document.name, revision=document.revision, entry=entry)


def _change(
    kind: str, name: str, value: Entry | Journal | None, expected: str | None
) -> DocumentChange:
    data = None if value is None else _encode(value)
    return DocumentChange(kind=kind, name=name, data=data, revision=new_id(), expected=expected)
