"""Taking out what no job refers to any more.

A payload belongs to a job, by its name. While the job store knows the job, in whatever state, its
payloads stay. A result may have been given to others, which outlive its job: to jobs that depended
on it, to one that had delegated its work. So it stays too while its workflow has any job left,
while a job that may run depends on it, and while it is the result of any job.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from taskmq.envelope import load
from taskmq.errors import ConfigError, MessageError
from taskmq.records import JobFilter, JobRecord
from taskmq.references import OFFLOADED, load_reference
from taskmq.states import JobState
from taskmq.transport import Transport

from .names import Kind, job_of, kind_of, workflow_of
from .store import PayloadStore, StoredPayload

__all__ = ["SweepReport", "sweep"]

PAGE = 500
RUN_NO_MORE = frozenset({JobState.SUCCEEDED, JobState.EXPIRED, JobState.REVOKED})
"""All others may run, dead letters and skipped jobs after a replay."""
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
    """Delete up to ``limit`` payloads that no job refers to. If there are such results, it reads
    all jobs of the store once, page by page.

    ``older_than`` seconds protect what a producer has just stored and not yet submitted: it must
    exceed the longest time between the two, which includes the waiting for a full queue. The
    payload store must be that of this job store alone. Any process may call it, several at once.
    Raises `ConfigError` and `taskmq.errors.TransportError`.
    """
    if older_than < LEAST_AGE:
        raise ConfigError(f"older_than must be at least {LEAST_AGE:g} seconds, got {older_than!r}")
    young = kept = looked_at = 0
    garbage: list[StoredPayload] = []
    left = iter(store.stored())
    while len(garbage) < limit and (page := list(islice(left, PAGE))):
        looked_at += len(page)
        old = [each for each in page if each.at is not None and each.at <= now - older_than]
        young += len(page) - len(old)
        gone = _without_job(transport, old)
        kept += len(old) - len(gone)
        garbage += gone
    cut = len(garbage) > limit
    garbage = garbage[:limit]
    used = _still_used(transport, [each for each in garbage if _is_result(each)])
    kept += len(used)
    garbage = [each for each in garbage if each.name not in used]
    if garbage and not dry_run:
        store.delete([each.name for each in garbage])
    return SweepReport(
        looked_at=looked_at,
        young=young,
        kept=kept,
        deleted=len(garbage),
        size=sum(each.size for each in garbage),
        complete=not cut and next(left, None) is None,
    )


def _is_result(payload: StoredPayload) -> bool:
    return kind_of(payload.name) is Kind.RESULT


def _without_job(transport: Transport, payloads: Sequence[StoredPayload]) -> list[StoredPayload]:
    ids = list({job_of(each.name) for each in payloads})
    records = transport.get(ids) if ids else []
    known = {job_id for job_id, record in zip(ids, records, strict=True) if record is not None}
    return [each for each in payloads if job_of(each.name) not in known]


def _still_used(transport: Transport, results: Sequence[StoredPayload]) -> set[str]:
    """The names of results of gone jobs that others may have. It is asked after it was seen that
    the jobs are gone: nothing new can come to depend on them."""
    if not results:
        return set()
    alive = {
        workflow: bool(transport.find(JobFilter(workflow=workflow, limit=1)))
        for workflow in {workflow_of(each.name) for each in results}
        if workflow is not None
    }
    used = {each.name for each in results if alive.get(workflow_of(each.name) or "")}
    jobs: set[str] = set()
    names: set[str] = set()
    after: str | None = None
    while page := transport.find(JobFilter(after=after, limit=PAGE)):
        for record in page:
            jobs.update(_dependencies(record))
            names.update(_own_result(record))
        after = page[-1].id
    if after is not None and transport.get([after])[0] is None:
        # Nothing follows a job that was deleted meanwhile: this may not have been the end.
        return {each.name for each in results}
    return used | {each.name for each in results if each.name in names or job_of(each.name) in jobs}


def _dependencies(record: JobRecord) -> Iterator[str]:
    """The jobs whose results one that may run has, or will have."""
    if record.state in RUN_NO_MORE:
        return
    if record.delegated_to is not None:
        yield record.delegated_to
    try:
        yield from (dependency.job for dependency in load(record.envelope).after)
    except MessageError:
        return  # nobody can run it


def _own_result(record: JobRecord) -> Iterator[str]:
    if record.result is not None and record.result.codec == OFFLOADED:
        try:
            yield load_reference(record.result.data).name
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
