"""Looking at schedules, and changing them while schedulers run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone

import msgspec

from taskmq.app import App
from taskmq.checks import nearest
from taskmq.control import whoami
from taskmq.errors import ConfigError, UnknownSchedule
from taskmq.schedule import Schedule

from .book import Book, Entry, Journal, Page, Run
from .template import extra_job_of, template_of
from .tick import KEPT, enqueue, seen_of

__all__ = ["ScheduleInfo", "Schedules"]

UTC = timezone.utc
PATIENCE = 15.0
"""Seconds after which a run is overdue that nobody has enqueued: longer than it takes until
another scheduler leads after one was killed."""
TRIES = 10
"""How often a change is tried that others come in between of."""


class ScheduleInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as it is stored. ``entry`` is ``None`` if it cannot be read: ``broken`` says
    why. ``next_run`` is ``None`` for one that is paused, disabled or over. ``overdue`` is the
    first run that should have been enqueued and was not: no scheduler runs, or its queue is full.
    """

    name: str
    entry: Entry | None
    journal: Journal | None
    next_run: datetime | None = None
    overdue: datetime | None = None
    broken: str = ""


class Schedules:
    """The schedules of an app's store. Changes take effect within a second, in whatever process
    leads. ``by`` says to people who wants a change; ``user@host`` unless given. Methods raise
    `TransportError`, and `UnknownSchedule` for a name that there is not.

    >>> schedules = Schedules(app)
    >>> schedules.add(every("shop.clean_up", seconds=60))
    >>> schedules.pause("shop.clean_up", by="ann")
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._book = Book(app.transport)

    def all(self, names: Sequence[str] | None = None) -> list[ScheduleInfo]:
        """Every schedule, by name."""
        journals = self._book.journals(names)
        now = self._app.clock.now()
        return [
            _info(page, journals.get(page.name, (None, ""))[0], now)
            for page in self._book.pages(names)
        ]

    def get(self, name: str) -> ScheduleInfo:
        """One of them."""
        found = self.all([name])
        if not found:
            raise self._unknown(name)
        return found[0]

    def upcoming(self, name: str, count: int = 10) -> list[datetime]:
        """Its next instants, whether it is paused or not; fewer if there are no more."""
        entry = self._readable(self._page(name))
        instant: datetime | None = datetime.fromtimestamp(self._app.clock.now(), UTC)
        found: list[datetime] = []
        while len(found) < count and instant is not None:
            instant = entry.schedule.next_after(instant)
            if instant is not None:
                found.append(instant)
        return found

    def add(self, schedule: Schedule, *, by: str | None = None, replace: bool = False) -> None:
        """Store a schedule that no program defines. Its runs are as this app's task says now.
        Raises `UnknownTask`, and `ConfigError` if the name is taken, unless ``replace`` is given,
        or if the task does not take its arguments. One that a program defines is not replaced."""
        self._app.load()
        template, now = template_of(self._app, schedule), self._app.clock.now()
        author = whoami() if by is None else by
        for _ in range(TRIES):
            pages = self._book.pages([schedule.name])
            old = pages[0].entry if pages else None
            if old is not None and old.origin == "code":
                raise _defined(old)
            if pages and not replace:
                raise ConfigError(
                    f"there is a schedule {schedule.name!r} already: choose another name, or "
                    "replace it"
                )
            entry = Entry(
                schedule=schedule,
                template=template,
                origin="added",
                by=author,
                at=now,
                since=old.since if old is not None and old.schedule.rule == schedule.rule else now,
                paused_by=old.paused_by if old is not None else "",
                paused_at=old.paused_at if old is not None else None,
            )
            if self._book.write(schedule.name, entry, pages[0].revision if pages else None):
                return
        raise _contended(schedule.name)

    def remove(self, name: str) -> None:
        """Take one out. Raises `ConfigError` for one that a program defines, which would be back
        when that starts again: pause it instead."""
        for _ in range(TRIES):
            page = self._page(name)
            if page.entry is not None and page.entry.origin == "code" and page.entry.program:
                raise _defined(page.entry)
            if self._book.write(name, None, page.revision):
                self._book.forget(name)
                return
        raise _contended(name)

    def pause(self, name: str, *, by: str | None = None) -> bool:
        """Let nothing of it be enqueued; false if it is paused already. What is due meanwhile is
        a misfire when it is resumed."""
        now, author = self._app.clock.now(), whoami() if by is None else by
        return self._change(
            name,
            lambda entry: (
                None
                if entry.paused_at is not None
                else msgspec.structs.replace(entry, paused_by=author, paused_at=now)
            ),
        )

    def resume(self, name: str) -> bool:
        """Let it be enqueued again, also if it had disabled itself; false if it was not paused."""
        return self._change(
            name,
            lambda entry: (
                None
                if entry.is_active
                else msgspec.structs.replace(entry, paused_by="", paused_at=None, disabled="")
            ),
        )

    def run(self, name: str) -> str:
        """Enqueue a run now, beside those that are due, paused or not; the job's id. Those that
        must not overlap take it into account."""
        entry = self._readable(self._page(name))
        if entry.template is None:
            raise ConfigError(f"schedule {name!r} is disabled: {entry.disabled}")
        now = self._app.clock.now()
        (job_id,) = enqueue(
            self._app, [extra_job_of(self._app, entry.schedule, entry.template, now)]
        )
        self._note(name, entry, Run(now, job_id))
        return job_id

    def _note(self, name: str, entry: Entry, run: Run) -> None:
        for _ in range(TRIES):
            journal, revision = self._book.journals([name]).get(name, (None, None))
            if journal is None:
                return  # nobody leads yet; a single instant may still be due
            runs = (*journal.runs, run)[-KEPT:]
            journal = msgspec.structs.replace(journal, runs=runs)
            if self._book.note([(name, journal, revision)])[0]:
                return

    def _change(self, name: str, change: Callable[[Entry], Entry | None]) -> bool:
        for _ in range(TRIES):
            page = self._page(name)
            entry = change(self._readable(page))
            if entry is None:
                return False
            if self._book.write(name, entry, page.revision):
                return True
        raise _contended(name)

    def _page(self, name: str) -> Page:
        pages = self._book.pages([name])
        if not pages:
            raise self._unknown(name)
        return pages[0]

    def _readable(self, page: Page) -> Entry:
        if page.entry is None:
            raise ConfigError(f"schedule {page.name!r}: {page.broken}")
        return page.entry

    def _unknown(self, name: str) -> UnknownSchedule:
        names = [page.name for page in self._book.pages()]
        return UnknownSchedule(f"there is no schedule {name!r}{nearest(name, names)}")


def _info(page: Page, journal: Journal | None, now: float) -> ScheduleInfo:
    following = overdue = None
    broken, entry = page.broken, page.entry
    if entry is not None and entry.is_active:
        try:
            following = entry.schedule.next_after(datetime.fromtimestamp(now, UTC))
            seen = min(seen_of(entry, journal, now), now)
            overdue = entry.schedule.next_after(datetime.fromtimestamp(seen, UTC))
        except Exception as error:  # of one schedule: the others are to be seen
            broken = f"its next run cannot be computed: {error}"
    if overdue is not None and overdue.timestamp() > now - PATIENCE:
        overdue = None
    return ScheduleInfo(
        name=page.name,
        entry=entry,
        journal=journal,
        next_run=following,
        overdue=overdue,
        broken=broken,
    )


def _defined(entry: Entry) -> ConfigError:
    where = entry.program or "a program"
    return ConfigError(
        f"schedule {entry.schedule.name!r} is defined by {where}: change it there, or pause it"
    )


def _contended(name: str) -> ConfigError:
    return ConfigError(f"schedule {name!r} is changed by others all the time; try again")
