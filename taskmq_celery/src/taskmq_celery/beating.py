"""What schedulers of periodic tasks share through the store: when each entry ran last.

Every ``celery beat`` of an app may run. Before one sends what is due it looks here whether another
one has done so; what it then sends has an idempotency key made of the entry and of the run before,
so that of two who look at the same moment one stores a job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from taskmq.documents import DocumentChange
from taskmq.ids import new_id

from .engine import engine_for, translated

__all__ = ["Journal", "Run"]

KIND = "celery-beat"


class _Note(msgspec.Struct, array_like=True):
    at: float
    count: int


_pack, _unpack = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(_Note).decode


@dataclass(frozen=True)
class Run:
    """The last run of an entry: ``at`` is epoch seconds, ``count`` how many there were."""

    at: float
    count: int
    revision: str


class Journal:
    """The last runs of the entries of one app: an app of another name, on the same store, has its
    own. An entry is known by its name and its task. All methods raise
    `kombu.exceptions.OperationalError` when the store does not answer."""

    def __init__(self, app: Any) -> None:
        self._app = app

    def name_of(self, entry: Any) -> str:
        """The name of an entry among those of all apps."""
        return f"{self._app.main or ''}/{entry.name}/{entry.task}"

    def key_of(self, entry: Any, before: Run | None) -> str:
        """The idempotency key of the run of an entry that follows the run ``before``."""
        return f"{KIND}/{self.name_of(entry)}/{before.revision if before else 'first'}"

    @property
    def is_shared(self) -> bool:
        """Whether other processes can read it."""
        with translated():
            return bool(engine_for(self._app).transport.capabilities.shared)

    def read(self, *entries: Any) -> list[Run | None]:
        """The last run of each of these entries; ``None`` if nobody has run it."""
        names = [self.name_of(entry) for entry in entries]
        with translated():
            found = engine_for(self._app).transport.documents(KIND, names)
        known = {one.name: _run(one) for one in found}
        return [known.get(name) for name in names]

    def note(self, entry: Any, at: float, before: Run | None) -> bool:
        """Note that an entry has run, after the run ``before``. False: somebody else has."""
        count = entry.total_run_count
        change = DocumentChange(
            kind=KIND,
            name=self.name_of(entry),
            data=_pack(_Note(at, count)),
            revision=new_id(),
            expected=before.revision if before else None,
        )
        with translated():
            return bool(engine_for(self._app).transport.write([change])[0])


def _run(document: Any) -> Run:
    note = _unpack(document.data)
    return Run(note.at, note.count, document.revision)
