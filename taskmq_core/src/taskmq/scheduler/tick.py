"""One look at all schedules: enqueue what is due, note it, say when to look again."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timezone

import msgspec

from taskmq.app import App
from taskmq.call import Call
from taskmq.errors import (
    ConfigError,
    IdempotencyConflict,
    QueueFull,
    TaskmqError,
    UnknownDependency,
)
from taskmq.schedule import At, Schedule, runs_due
from taskmq.states import TERMINAL

from .book import Book, Entry, Journal, Page, Run

__all__ = ["DUE_AT", "SCHEDULE", "Tick", "call_of", "run_now"]

logger = logging.getLogger("taskmq.scheduler")

UTC = timezone.utc
SCHEDULE = "taskmq-schedule"
"""Header of a job that was scheduled: the schedule's name."""
DUE_AT = "taskmq-due-at"
"""Header: the instant it was due, as epoch seconds."""
KEY_TTL = 7 * 86_400.0
"""How long the key of a run stands for its job. A leader that was killed after it had enqueued and
before it noted that is followed by another one long before."""
REFUSALS = (QueueFull, IdempotencyConflict, UnknownDependency)
"""Of one job, not of the store."""
AGAIN = 5.0
"""Seconds after which a run that was refused is tried again."""
KEPT = 2
"""Runs that a journal remembers."""


class _Due(msgspec.Struct):
    """A schedule with runs to be enqueued."""

    page: Page
    schedule: Schedule
    journal: Journal
    revision: str | None
    instants: list[datetime]
    refused: bool = False


class Tick:
    """Looks through the schedules of an app's store, on behalf of whoever leads.

    Enqueueing comes first, noting second, so that nothing is lost in between; what is enqueued
    again is known by its key.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self._book = Book(app.transport)

    def take(self, pages: Sequence[Page], now: float) -> float | None:
        """Enqueue what is due at ``now``; when the next run is due, if any is. Raises
        `TransportError`, after which it may be called again."""
        instant = datetime.fromtimestamp(now, UTC)
        journals = self._book.journals()
        due: list[_Due] = []
        upcoming: list[datetime] = []
        for page in pages:
            if page.entry is None or not page.entry.is_active:
                continue
            schedule = page.entry.schedule
            journal, revision = journals.get(page.name, (None, None))
            if journal is None:
                journal = Journal(seen=_beginning(page.entry, now))
            try:
                seen = datetime.fromtimestamp(min(journal.seen, now), UTC)
                instants = runs_due(schedule, seen, instant)
                following = schedule.next_after(instant)
            except Exception as error:  # a rule that cannot be computed must not stop the others
                self._disable(page, f"its next run cannot be computed: {error}")
                continue
            if following is not None:
                upcoming.append(following)
            if instants or revision is None or following is None:
                due.append(_Due(page, schedule, journal, revision, instants))
        if due:
            self._enqueue(due)
            self._note([one for one in due if not one.refused], now)
            if any(one.refused for one in due):
                upcoming.append(datetime.fromtimestamp(now + AGAIN, UTC))
        return min(upcoming).timestamp() if upcoming else None

    # -- enqueueing --------------------------------------------------------------------------

    def _enqueue(self, due: Sequence[_Due]) -> None:
        running = self._unfinished(due)
        batch: list[tuple[_Due, datetime, Call[object]]] = []
        for one in due:
            for instant in one.instants:
                ahead = sum(run.job_id in running for run in one.journal.runs)
                ahead += sum(each is one for each, *_ in batch)
                if _is_in_the_way(one.schedule, ahead):
                    logger.info("schedule %r: an earlier run has not ended", one.schedule.name)
                    skipped = one.journal.skipped + 1
                    one.journal = msgspec.structs.replace(one.journal, skipped=skipped)
                    continue
                try:
                    call = call_of(self._app, one.schedule, instant)
                    self._app.seal(call, self._app.clock.now())
                except TaskmqError as error:
                    self._disable(one.page, str(error))
                    break
                batch.append((one, instant, call))
        if not batch:
            return
        for (one, instant, _), result in zip(batch, self._submit(batch), strict=True):
            if result is not None:
                run = Run(instant.timestamp(), result)
                runs = tuple(each for each in one.journal.runs if each != run)
                one.journal = msgspec.structs.replace(one.journal, runs=(*runs, run)[-KEPT:])

    def _submit(self, batch: Sequence[tuple[_Due, datetime, Call[object]]]) -> list[str | None]:
        try:
            return [job.id for job in self._app.submit_many([call for *_, call in batch])]
        except (*REFUSALS, ConfigError):
            return [self._submit_one(one, call) for one, _, call in batch]

    def _submit_one(self, one: _Due, call: Call[object]) -> str | None:
        """A queue that is full, for instance, must not keep the others from being enqueued."""
        try:
            return self._app.submit(call).id
        except IdempotencyConflict as error:  # it had other arguments when it was enqueued first
            return error.job_id
        except (*REFUSALS, ConfigError) as error:
            logger.error("schedule %r: a run is put off: %s", one.schedule.name, error)
            one.refused = True
            return None

    def _unfinished(self, due: Sequence[_Due]) -> set[str]:
        """Of the runs that matter for those that must not overlap."""
        ids = [
            run.job_id
            for one in due
            if one.instants and one.schedule.overlap != "allow"
            for run in one.journal.runs
        ]
        found = self._app.transport.get(ids) if ids else []
        return {job.id for job in found if job is not None and job.state not in TERMINAL}

    # -- noting ------------------------------------------------------------------------------

    def _note(self, due: Sequence[_Due], now: float) -> None:
        notes = [
            (one.page.name, msgspec.structs.replace(one.journal, seen=now), one.revision)
            for one in due
        ]
        for one, noted in zip(due, self._book.note(notes), strict=True):
            if not noted:
                logger.info("schedule %r was noted by another scheduler", one.schedule.name)

    def _disable(self, page: Page, reason: str) -> None:
        logger.error("schedule %r is disabled: %s", page.name, reason)
        if page.entry is not None:
            entry = msgspec.structs.replace(page.entry, disabled=reason)
            if self._book.write(page.name, entry, page.revision):
                page.entry = None


def call_of(app: App, schedule: Schedule, due: datetime) -> Call[object]:
    """The call that a run of a schedule is. Raises `UnknownTask`, and `ConfigError` where
    options or arguments do not fit."""
    app.load()
    task = app.tasks[schedule.task]
    instant = due.astimezone(UTC)
    options = {
        "key": f"schedule:{schedule.name}:{instant.isoformat()}",
        "key_ttl": KEY_TTL,
        **schedule.options,
    }
    headers = options.pop("headers", {})
    options["headers"] = {**headers, SCHEDULE: schedule.name, DUE_AT: instant.timestamp()}
    delay = schedule.delay(due)
    if delay:
        options["eta"] = datetime.fromtimestamp(instant.timestamp() + delay, UTC)
    try:
        return task.call(*schedule.args, **schedule.kwargs).options(**options)
    except TypeError as error:
        raise ConfigError(f"schedule {schedule.name!r}: {error}") from None


def run_now(app: App, schedule: Schedule) -> str:
    """Enqueue a run that is due at no instant of the schedule; the job's id."""
    now = datetime.fromtimestamp(app.clock.now(), UTC)
    call = call_of(app, msgspec.structs.replace(schedule, jitter=0.0), now)
    return app.submit(call.options(key=None)).id


def _beginning(entry: Entry, now: float) -> float:
    """From when on a schedule is due that nobody has seen before: from now on, except for a
    single instant, which may have passed since somebody wanted it."""
    if isinstance(entry.schedule.rule, At):
        return min(now, entry.schedule.rule.instant.timestamp() - 1.0)
    return now


def _is_in_the_way(schedule: Schedule, ahead: int) -> bool:
    """Whether a run must be left out because of earlier ones that have not ended."""
    if schedule.overlap == "allow":
        return False
    return ahead >= (1 if schedule.overlap == "skip" else 2)
