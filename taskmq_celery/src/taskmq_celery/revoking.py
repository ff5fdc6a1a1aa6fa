"""Tasks that were taken out, and taking out those with a stamp."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taskmq import JobState
from taskmq.envelope import load
from taskmq.errors import MessageError
from taskmq.records import JobFilter, JobRecord

from .engine import engine_for, translated
from .inspection import pages
from .message import stamp_values, stamps_of
from .results import revoke

__all__ = ["revoke_stamped", "revoked_ids"]

UNFINISHED = (JobState.WAITING, JobState.QUEUED, JobState.RUNNING, JobState.RETRYING)
MOST_REVOKED = 50_000


def revoked_ids(app: Any) -> list[str]:
    """The tasks that somebody has taken out, and of which the store still knows."""
    with translated():
        found = pages(engine_for(app), JobFilter(revoked=True), MOST_REVOKED)
        return [record.id for record in found]


def revoke_stamped(app: Any, headers: Mapping[str, Any], *, terminate: bool) -> list[str]:
    """Take out the unfinished tasks that have one of these stamps: by name, a value or several of
    which any will do. Their ids."""
    wanted = {name: stamp_values(values) for name, values in headers.items()}
    with translated():
        found = list(pages(engine_for(app), JobFilter(states=UNFINISHED)))
    ids = [record.id for record in found if _has_stamp(record, wanted)]
    if ids:
        revoke(app, ids, terminate=terminate)
    return ids


def _has_stamp(record: JobRecord, wanted: Mapping[str, set[str]]) -> bool:
    try:
        headers = load(record.envelope).headers
    except MessageError:
        return False
    return any(
        not wanted.get(name, set()).isdisjoint(values)
        for name, values in stamps_of(headers).items()
    )
