"""Taking out what no job refers to any more.

A payload belongs to a job, by its name. While the job store knows the job, in whatever state, its
payloads stay. A result that was handed to other jobs stays too while one of these may still run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from taskmq.envelope import load
from taskmq.errors import ConfigError, MessageError
from taskmq.records import JobFilter
from taskmq.states import JobState
from taskmq.transport import Transport

from .names import Kind, job_of, kind_of
from .store import PayloadStore, StoredPayload

__all__ = ["SweepReport", "sweep"]

PAGE = 500
MAY_RUN = (
    JobState.WAITING,
    JobState.QUEUED,
    JobState.RUNNING,
    JobState.RETRYING,
    JobState.FAILED,  # may be replayed
    JobState.SKIPPED,  # waits again if what it depended on is replayed
)
LEAST_AGE = 60.0


class SweepReport(msgspec.Struct, frozen=True, kw_only=True):
    """What one sweep did. ``size`` is that of what it deleted, in bytes."""

    looked_at: int = 0
    young: int = 0
    kept: int = 0
    deleted: int = 0
    size: int = 0
    complete: bool = True
    """Whether it came to the end, instead of to its limit."""


def sweep(
    transport: Transport,
    store: PayloadStore,
    *,
    now: float,
    older_than: float = 3600.0,
    limit: int = 10_000,
    dry_run: bool = False,
) -> SweepReport:
    """Delete up to ``limit`` payloads of jobs that the job store does not know.

    ``older_than`` seconds protect what a producer has just stored and not yet submitted: it must
    exceed the longest time between the two, which includes the waiting for a full queue. The
    payload store must be that of this job store alone. Any process may call it, several at once.
    Raises `ConfigError` and `taskmq.errors.TransportError`.
    """
    if older_than < LEAST_AGE:
        raise ConfigError(f"older_than must be at least {LEAST_AGE:g} seconds, got {older_than!r}")
    young = kept = deleted = size = looked_at = 0
    handed_over: list[StoredPayload] = []
    left = iter(store.stored())
    while deleted + len(handed_over) < limit and (page := list(islice(left, PAGE))):
        looked_at += len(page)
        old = [each for each in page if each.at is not None and each.at <= now - older_than]
        young += len(page) - len(old)
        gone = list(_without_job(transport, old))
        kept += len(old) - len(gone)
        handed_over += [each for each in gone if kind_of(each.name) is Kind.HANDED_OVER]
        garbage = [each for each in gone if kind_of(each.name) is not Kind.HANDED_OVER]
        _delete(store, garbage, dry_run)
        deleted += len(garbage)
        size += sum(each.size for each in garbage)
    if handed_over:
        wanted = _depended_on(transport)
        garbage = [
            each for each in handed_over if wanted is not None and job_of(each.name) not in wanted
        ]
        _delete(store, garbage, dry_run)
        kept += len(handed_over) - len(garbage)
        deleted += len(garbage)
        size += sum(each.size for each in garbage)
    return SweepReport(
        looked_at=looked_at,
        young=young,
        kept=kept,
        deleted=deleted,
        size=size,
        complete=next(left, None) is None,
    )


def _without_job(
    transport: Transport, payloads: Sequence[StoredPayload]
) -> Iterator[StoredPayload]:
    ids = list({job_of(each.name) for each in payloads})
    records = transport.get(ids) if ids else []
    known = {job_id for job_id, record in zip(ids, records, strict=True) if record is not None}
    return (each for each in payloads if job_of(each.name) not in known)


def _depended_on(transport: Transport) -> set[str] | None:
    """Every job that one which may run waits for, or waited for; ``None`` if that cannot be said
    this time. Asked after it was seen that these are gone: no new job can come to depend on
    them."""
    wanted: set[str] = set()
    after: str | None = None
    while True:
        page = transport.find(JobFilter(states=MAY_RUN, after=after, limit=PAGE))
        if not page:
            # Nothing follows a job that was deleted meanwhile: then this is no end.
            return wanted if after is None or transport.get([after])[0] is not None else None
        for record in page:
            wanted.update(_dependencies(record.envelope))
        after = page[-1].id


def _dependencies(envelope: bytes) -> Iterator[str]:
    try:
        return (dependency.job for dependency in load(envelope).after)
    except MessageError:
        return iter(())  # nobody can run it


def _delete(store: PayloadStore, garbage: Sequence[StoredPayload], dry_run: bool) -> None:
    if garbage and not dry_run:
        store.delete([each.name for each in garbage])
