"""Control that is stored: pauses, and jobs that are revoked by what they are."""

from __future__ import annotations

import os
import socket

import msgspec

from .errors import ConfigError
from .records import JobFilter, PausedWorkflow
from .states import TERMINAL, JobState
from .transport import JobStore, Transport

__all__ = ["paused_workflows", "revoke_where", "whoami"]

BATCH = 500
MOST_RUNNING = 1_000_000
OPEN = tuple(state for state in JobState if state not in TERMINAL | {JobState.UNKNOWN})
SELECTION = ("task", "queue", "key", "workflow")


def whoami() -> str:
    """``user@host``, for people; the number of a user who has no name."""
    import getpass  # with termios, for those who are about to be named

    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # in a container, say
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def paused_workflows(store: Transport) -> list[PausedWorkflow]:
    """Every paused workflow, by id; none where a store cannot pause any."""
    return store.paused_workflows() if store.capabilities.workflow_pauses else []


def revoke_where(
    store: JobStore, wanted: JobFilter, *, terminate: bool = False, by: str = ""
) -> int:
    """Revoke every unfinished job that matches, in batches; how many were (see `JobStore.revoke`).

    ``wanted`` says ``task``, ``queue``, ``key`` or ``workflow``, or several of them: all have to
    match. Raises `ConfigError` if it says none: that would be everything. Each batch is atomic, the
    whole is not; jobs that are submitted meanwhile may or may not be among them.
    """
    if all(getattr(wanted, name) is None for name in SELECTION):
        raise ConfigError(f"which jobs? give one of {', '.join(SELECTION)}")
    count = 0
    if terminate:  # also those that were asked before, but not to be ended by force
        running = msgspec.structs.replace(wanted, states=(JobState.RUNNING,), limit=MOST_RUNNING)
        count += sum(store.revoke([job.id for job in store.find(running)], terminate=True, by=by))
    page = msgspec.structs.replace(wanted, states=OPEN, stopping=False, limit=BATCH, after=None)
    while revoked := _revoke_pages(store, page, terminate=terminate, by=by):
        count += revoked
    return count


def _revoke_pages(store: JobStore, page: JobFilter, *, terminate: bool, by: str) -> int:
    """Once through the store: an end that comes too early, because the last job of a page was
    deleted meanwhile, is made good by the next time."""
    count = 0
    while found := store.find(page):
        ids = [job.id for job in found]
        count += sum(store.revoke(ids, terminate=terminate, by=by))
        page = msgspec.structs.replace(page, after=ids[-1])
    return count
