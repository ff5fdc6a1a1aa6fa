"""A schedule that is kept in a file: when each entry ran last survives a restart."""

from __future__ import annotations

import contextlib
import datetime
import dbm
import errno
import os
import shelve
from functools import cached_property
from pickle import UnpicklingError
from typing import Any

from kombu.exceptions import OperationalError

from celery import __version__, beat
from celery.schedules import schedstate
from celery.utils.time import maybe_make_aware
from taskmq_celery.beating import Journal, Run
from taskmq_celery.message import KEY

from .entries import ScheduleEntry
from .scheduler import Scheduler, _all_of

__all__ = ("PersistentScheduler",)

UNREADABLE: tuple[type[BaseException], ...] = (
    *(KeyError, TypeError, UnicodeDecodeError, UnpicklingError, ValueError),
    *dbm.error,
)
"""What a file raises that was cut off, or written by another version."""

STORE_AWAY = 1.0
"""Seconds after which to look again, when the store did not answer."""

STAMPS = ("__version__", "tz", "utc_enabled")


class PersistentScheduler(Scheduler):
    """The default: entries are in the file ``schedule_filename``, in Celery's format.

    A file that cannot be read is made anew; one that was written with another time zone is
    emptied. Any number of these may run for one app, on any number of hosts: each run of an entry
    is sent once, by whichever is first, and when it was is in the store, too.
    """

    persistence: Any = shelve
    known_suffixes = ("", ".db", ".dat", ".bak", ".dir")
    _store: Any = None
    _bound: Any = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.schedule_filename = kwargs.get("schedule_filename")
        self._seen: dict[str, Run | None] = {}  # of what is due, the run before
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        try:
            self._store = self._open_schedule()
            self._store.keys()  # some files fail only when they are read
        except Exception as exc:
            self._store = self._destroy_open_corrupted_schedule(exc)
        self._create_schedule()
        now = {"tz": self.app.conf.timezone, "utc_enabled": self.app.conf.enable_utc}
        for name, value in now.items():
            kept = self._store.get(name)
            if kept is not None and kept != value:
                beat.warning("Reset: %s changed from %r to %r", name, kept, value)
                self._store.clear()
        self._store.setdefault("entries", {})
        self.merge_inplace(self.app.conf.beat_schedule)
        self.install_default_entries(self.schedule)
        self._catch_up()
        self._store.update({"__version__": __version__, **now})
        self.sync()
        beat.debug("Current schedule:\n%s", "\n".join(map(repr, self.schedule.values())))

    def _catch_up(self) -> None:
        """Know what has run where this file was not: a run that was missed meanwhile is due."""
        entries = list(self.schedule.values())
        if self._journal is None or not entries:
            return
        try:
            found = self._journal.read(*entries)
        except OperationalError as exc:
            beat.warning("beat: the store does not answer yet: %s", exc)
            return
        for entry, last in zip(entries, found, strict=True):
            if last is not None and (not entry.total_run_count or last.at > _epoch(entry)):
                self._adopt(entry, last)

    def _open_schedule(self) -> Any:
        return self.persistence.open(self.schedule_filename, writeback=True)

    def _create_schedule(self) -> None:
        """Make sure that the file can be read, and has entries of a format that is known."""
        try:
            self._store["entries"]
        except UNREADABLE as exc:
            if not isinstance(exc, KeyError):  # a new file has none
                beat.warning("beat: the entries of the schedule cannot be read (%r): reset", exc)
            try:
                self._store["entries"] = {}
            except UNREADABLE as worse:
                self._store = self._destroy_open_corrupted_schedule(worse)
                self._store["entries"] = {}
            return
        missing = next((name for name in STAMPS if name not in self._store), None)
        if missing is not None:
            beat.warning("DB Reset: Account for new %s field", missing)
            self._store.clear()

    def _destroy_open_corrupted_schedule(self, exc: BaseException) -> Any:
        beat.error(
            "Removing corrupted schedule file %r: %r", self.schedule_filename, exc, exc_info=True
        )
        self._remove_db()
        return self._open_schedule()

    def _remove_db(self) -> None:
        for suffix in self.known_suffixes:
            with _missing_ok():
                os.remove(f"{self.schedule_filename}{suffix}")  # noqa: PTH107  # Celery's seam

    def get_schedule(self) -> Any:
        entries = self._store["entries"]
        if entries is not self._bound:  # read from the file anew, as after each `sync`
            self._bound = entries
            for entry in entries.values():
                if isinstance(entry, ScheduleEntry):
                    entry.app = self.app
                    if entry.schedule is not None:
                        entry.schedule.app = self.app
        return entries

    def set_schedule(self, schedule: Any) -> None:
        self._store["entries"] = schedule

    # -- with others -------------------------------------------------------------------------

    @cached_property
    def _journal(self) -> Journal | None:
        """What all beats of the app have run; ``None`` for a store of this process alone."""
        journal = Journal(self.app)
        return journal if journal.is_shared else None

    def is_due(self, entry: Any) -> Any:
        """Whether an entry is due: not if another beat has just run it, nor while the store is
        away, since then it could not be sent."""
        due = super().is_due(entry)
        if not due[0]:
            return due
        try:
            last = self._journal.read(entry)[0] if self._journal is not None else None
        except OperationalError as exc:
            beat.warning("beat: %s is due, and waits for the store: %s", entry.name, exc)
            return schedstate(False, STORE_AWAY)
        self._seen[entry.name] = last
        if last is None or last.at <= _epoch(entry):
            return due
        self._adopt(entry, last)
        return super().is_due(entry)

    def _adopt(self, entry: Any, last: Run) -> None:
        at = datetime.datetime.fromtimestamp(last.at, datetime.timezone.utc)
        entry.last_run_at = at.astimezone(self.app.timezone)
        entry.total_run_count = last.count
        self.schedule[entry.name] = entry

    def _options(self, entry: Any) -> dict[str, Any]:
        options = super()._options(entry)
        if self._journal is not None and entry.name in self._seen:
            options[KEY] = self._journal.key_of(entry, self._seen[entry.name])
        return options

    def apply_async(
        self, entry: Any, producer: Any = None, advance: bool = True, **kwargs: Any
    ) -> Any:
        result = super().apply_async(entry, producer=producer, advance=advance, **kwargs)
        now = self.schedule.get(entry.name)
        if self._journal is not None and now is not None and entry.name in self._seen:
            self._journal.note(now, _epoch(now), self._seen.pop(entry.name))
        return result

    def sync(self) -> None:
        if self._store is not None:
            self._store.sync()

    def close(self) -> None:
        _all_of((self.sync, self._close_store, self._release))

    def _close_store(self) -> None:
        if self._store is not None:
            self._store.close()

    @property
    def info(self) -> str:
        return f"    . db -> {self.schedule_filename}"


@contextlib.contextmanager
def _missing_ok() -> Any:
    try:
        yield
    except OSError as exc:
        if exc.errno != errno.ENOENT:
            raise


def _epoch(entry: Any) -> float:
    """When an entry ran last."""
    return float(maybe_make_aware(entry.last_run_at).timestamp())


PersistentScheduler.__module__ = "celery.beat"
