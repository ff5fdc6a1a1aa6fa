"""Letting the store have the schedules that a program defines."""

from __future__ import annotations

import logging
from collections.abc import Mapping

import msgspec

from taskmq.app import App
from taskmq.errors import TaskmqError, TransportError
from taskmq.schedule import Schedule

from .book import Book, Entry, Page
from .template import Template, template_of

__all__ = ["publish", "restore"]

logger = logging.getLogger("taskmq.scheduler")


def publish(app: App, book: Book, program: str) -> None:
    """Write what the app defines, as ``program``, and take out what that had defined before.

    Every process of a program does so when it starts, whoever leads: the one that started last
    decides. A program without a name takes nothing out. Raises `TransportError`.
    """
    defined = {schedule.name: schedule for schedule in app.schedules}
    if not defined and not program:
        return
    known = {page.name: page for page in book.pages()}
    for name, schedule in defined.items():
        page = known.get(name)
        if page is not None and page.entry is not None and page.entry.origin != "code":
            logger.error(
                "schedule %r was added by %s; the program's own is left out: rename one of them",
                name,
                page.entry.by or "somebody",
            )
            continue
        _write(app, book, program, schedule, page)
    if program:
        _take_out(book, program, defined, known)


def restore(app: App, book: Book, program: str) -> None:
    """Write what the app defines and the store does not have: it may have lost all. What it has
    stays as it is: another version of the program may have written it."""
    if not app.schedules:
        return
    known = {page.name for page in book.pages()}
    for schedule in app.schedules:
        if schedule.name not in known:
            logger.warning("schedule %r is not in the store any more: written again", schedule.name)
            _write(app, book, program, schedule, None)


def _write(app: App, book: Book, program: str, schedule: Schedule, page: Page | None) -> None:
    now = app.clock.now()
    template, disabled = _template(app, schedule)
    if disabled:
        logger.error("schedule %r is disabled: %s", schedule.name, disabled)
    old = page.entry if page is not None else None
    if old is None or page is None:
        entry = Entry(schedule=schedule, at=now, since=now)
    elif _same(old, schedule, template, program):
        return
    else:
        if old.program != program:
            logger.warning(
                "schedule %r was defined by %s, and is by %s now",
                schedule.name,
                old.program or "a program without a name",
                program or "a program without a name",
            )
        since = old.since if old.schedule.rule == schedule.rule else now
        entry = msgspec.structs.replace(old, schedule=schedule, at=now, since=since)
    entry = msgspec.structs.replace(entry, template=template, program=program, disabled=disabled)
    # Refused where another process of the program writes at the same time: the same, or newer.
    book.write(schedule.name, entry, page.revision if page is not None else None)


def _template(app: App, schedule: Schedule) -> tuple[Template | None, str]:
    """Or why there is none."""
    try:
        return template_of(app, schedule), ""
    except TransportError:
        raise
    except TaskmqError as error:
        return None, " ".join(str(error).split())


def _same(old: Entry, schedule: Schedule, template: Template | None, program: str) -> bool:
    new = msgspec.structs.replace(old, schedule=schedule, template=template, program=program)
    return _as_read(new) == _as_read(old)


def _as_read(entry: Entry) -> bytes:
    """As it is encoded once it has been stored: defaults are left out by identity."""
    return msgspec.json.encode(msgspec.json.decode(msgspec.json.encode(entry), type=Entry))


def _take_out(
    book: Book, program: str, defined: Mapping[str, Schedule], known: Mapping[str, Page]
) -> None:
    for name, page in known.items():
        entry = page.entry
        if name in defined or entry is None or entry.origin != "code" or entry.program != program:
            continue
        logger.warning("schedule %r is not defined by %s any more: taken out", name, program)
        if book.write(name, None, page.revision):
            book.forget(name)
