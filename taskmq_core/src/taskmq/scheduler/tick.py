"""One look at all schedules: enqueue what is due, note it, say when to look again."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone

import msgspec

from taskmq.app import App
from taskmq.envelope import Sealed
from taskmq.errors import (
    IdempotencyConflict,
    QueueFull,
    TaskmqError,
    TransportError,
    UnknownDependency,
)
from taskmq.events import JobSubmitted
from taskmq.schedule import At, Schedule, runs_due
from taskmq.states import TERMINAL
from taskmq.transport import Enqueued

from .book import Book, Entry, Journal, Page, Run
from .template import Template, job_of

__all__ = ["KEPT", "Tick", "enqueue", "seen_of"]

logger = logging.getLogger("taskmq.scheduler")

UTC = timezone.utc
REFUSALS = (QueueFull, IdempotencyConflict, UnknownDependency)
"""Of one job, not of the store."""
AGAIN = 5.0
"""Seconds after which a run that was refused is tried again."""
KEPT = 2
"""Runs that a journal remembers."""
OVER_FOR = 7 * 86_400.0
"""Seconds for which a schedule that somebody added is kept after its last run."""


class _Due(msgspec.Struct):
    """A schedule with runs to be enqueued."""

    page: Page
    entry: Entry
    template: Template
    journal: Journal
    revision: str | None
    instants: list[datetime]
    refused: bool = False

    @property
    def schedule(self) -> Schedule:
        return self.entry.schedule


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
            entry = page.entry
            if entry is None or not entry.is_active:
                continue
            if entry.template is None:
                self._disable(page, "no program that has its task has made it ready")
                continue
            journal, revision = journals.get(page.name, (None, None))
            try:
                seen = seen_of(entry, journal, now)
                after = datetime.fromtimestamp(min(seen, now), UTC)
                instants = runs_due(entry.schedule, after, instant)
                following = entry.schedule.next_after(instant)
            except Exception as error:  # a rule that cannot be computed must not stop the others
                self._disable(page, f"its next run cannot be computed: {error}")
                continue
            if following is not None:
                upcoming.append(following)
            elif _is_over(entry, journal, now) and not instants:
                self._remove(page)
                continue
            if instants or journal is None or seen > now:
                journal = journal or Journal(seen=now)
                due.append(_Due(page, entry, entry.template, journal, revision, instants))
        self._forget_orphans(pages, journals)
        if due:
            self._enqueue(due, now)
            done = [one for one in due if not one.refused and one.page.entry is not None]
            self._note(done, now)
            if any(one.refused for one in due):
                upcoming.append(datetime.fromtimestamp(now + AGAIN, UTC))
        return min(upcoming).timestamp() if upcoming else None

    # -- enqueueing --------------------------------------------------------------------------

    def _enqueue(self, due: Sequence[_Due], now: float) -> None:
        unfinished = self._unfinished(due)
        batch: list[tuple[_Due, datetime, Sealed]] = []
        for one in due:
            ahead = sum(run.job_id in unfinished for run in one.journal.runs)
            for instant in one.instants:
                if _is_in_the_way(one.schedule, ahead):
                    logger.info(
                        "schedule %r: the run of %s is left out, an earlier one has not ended",
                        one.schedule.name,
                        instant.isoformat(),
                    )
                    skipped = one.journal.skipped + 1
                    one.journal = msgspec.structs.replace(one.journal, skipped=skipped)
                    continue
                try:
                    sealed = job_of(self._app, one.schedule, one.template, instant, now)
                except TransportError:
                    raise
                except TaskmqError as error:
                    self._disable(one.page, str(error))
                    break
                batch.append((one, instant, sealed))
                ahead += 1
        if not batch:
            return
        for (one, instant, _), job_id in zip(batch, self._store(batch), strict=True):
            if job_id is not None:
                logger.info(
                    "schedule %r: job %s is the run of %s",
                    one.schedule.name,
                    job_id,
                    instant.isoformat(),
                )
                run = Run(instant.timestamp(), job_id)
                runs = tuple(each for each in one.journal.runs if each != run)
                one.journal = msgspec.structs.replace(one.journal, runs=(*runs, run)[-KEPT:])

    def _store(self, batch: Sequence[tuple[_Due, datetime, Sealed]]) -> list[str | None]:
        try:
            return list(enqueue(self._app, [sealed for *_, sealed in batch]))
        except REFUSALS:
            return [self._store_one(one, sealed) for one, _, sealed in batch]

    def _store_one(self, one: _Due, sealed: Sealed) -> str | None:
        """A queue that is full, for instance, must not keep the others from being enqueued."""
        try:
            return enqueue(self._app, [sealed])[0]
        except IdempotencyConflict as error:  # it had other arguments when it was enqueued first
            return error.job_id
        except REFUSALS as error:
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
            if not noted:  # whatever is enqueued again for it is known by its key
                logger.info("schedule %r was noted by somebody else", one.schedule.name)

    def _disable(self, page: Page, reason: str) -> None:
        logger.error("schedule %r is disabled: %s", page.name, reason)
        if page.entry is not None:
            entry = msgspec.structs.replace(page.entry, disabled=reason)
            if self._book.write(page.name, entry, page.revision):
                page.entry = None

    def _remove(self, page: Page) -> None:
        logger.info("schedule %r is over: taken out", page.name)
        if self._book.write(page.name, None, page.revision):
            self._book.forget(page.name)
        page.entry = None

    def _forget_orphans(self, pages: Sequence[Page], journals: Mapping[str, object]) -> None:
        """Somebody may have ended between taking a schedule out and forgetting its runs."""
        known = {page.name for page in pages}
        for name in journals.keys() - known:
            if not self._book.pages([name]):  # it may have been added a moment ago
                self._book.forget(name)


def enqueue(app: App, sealed: Sequence[Sealed]) -> Sequence[str]:
    """Store jobs that were sealed already, and tell it; the jobs' ids. Does not wait for room."""
    stored = app.transport.enqueue(sealed)
    if app.emitter.active:
        app.emitter.emit(*map(_submitted, sealed, stored))
    lost = Counter(known.created for known in stored)[False]
    if lost:
        logger.debug("%d runs were enqueued before", lost)
    return [known.job_id for known in stored]


def _submitted(one: Sealed, known: Enqueued) -> JobSubmitted:
    return JobSubmitted(
        at=one.envelope.enqueued_at,
        job_id=known.job_id,
        task=one.envelope.task,
        queue=one.envelope.queue,
        trace=one.envelope.trace,
        key=one.envelope.key,
        created=known.created,
    )


def seen_of(entry: Entry, journal: Journal | None, now: float) -> float:
    """Up to when the runs of a schedule are dealt with; later than ``now`` only where a clock was
    put back."""
    rule = entry.schedule.rule
    if isinstance(rule, At):  # it may have passed before somebody wanted it
        return rule.instant.timestamp() - 1.0 if journal is None else journal.seen
    if journal is None:
        return min(entry.since, now)
    return max(journal.seen, entry.since) if entry.since <= now else journal.seen


def _is_over(entry: Entry, journal: Journal | None, now: float) -> bool:
    """Whether it may be taken out: nothing will ever come, and nobody would define it again."""
    return entry.origin == "added" and journal is not None and now - journal.seen > OVER_FOR


def _is_in_the_way(schedule: Schedule, ahead: int) -> bool:
    """Whether a run must be left out because of earlier ones that have not ended."""
    if schedule.overlap == "allow":
        return False
    return ahead >= (1 if schedule.overlap == "skip" else 2)
