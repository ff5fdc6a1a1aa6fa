"""Commands that decide what runs: ``pause``, ``resume``, ``revoke``; and who decided."""

from __future__ import annotations

import argparse
import sys

from taskmq import App, ConfigError
from taskmq.checks import nearest
from taskmq.control import whoami
from taskmq.diagnose import in_words

from .admin import confirm
from .apps import open_store
from .exits import CommandFailed, Exit
from .job import as_document
from .output import Printer
from .values import counted

__all__ = ["pause", "resume", "revoke", "revoked"]


def pause(arguments: argparse.Namespace) -> int:
    """Let no worker take jobs from a queue."""
    app = open_store(arguments)
    queue: str = arguments.queue
    if app.pause(queue, reason=arguments.reason):
        Printer().line(f"queue {queue!r} is paused; to go on: taskmq resume {queue}")
        _tell_if_unknown(app, queue)
        return Exit.OK
    for known in app.paused():
        if known.queue == queue:
            ago = in_words(app.clock.now() - known.paused_at)
            Printer().line(f"queue {queue!r} was paused by {known.by} {ago} ago")
    return Exit.OK


def _tell_if_unknown(app: App, queue: str) -> None:
    """A name that was mistyped pauses nothing that there is."""
    store = app.transport
    known = {*app.queues(), *(stats.queue for stats in store.stats())}
    known.update(name for worker in store.workers() for name in worker.queues)
    if queue not in known:
        hint = nearest(queue, sorted(known))
        sys.stderr.write(f"taskmq: warning: no job, worker or task names that queue yet{hint}\n")


def resume(arguments: argparse.Namespace) -> int:
    """End a pause."""
    app = open_store(arguments)
    if not app.resume(arguments.queue):
        names = ", ".join(each.queue for each in app.paused()) or "none"
        text = f"queue {arguments.queue!r} is not paused (paused are: {names})"
        raise CommandFailed(text)
    Printer().line(f"queue {arguments.queue!r} goes on")
    return Exit.OK


def revoke(arguments: argparse.Namespace) -> int:
    """Take out the jobs that are named, or all that match."""
    wanted = {name: getattr(arguments, name) for name in ("task", "queue", "key", "workflow")}
    given = {name: value for name, value in wanted.items() if value is not None}
    if bool(arguments.jobs) == bool(given):
        raise ConfigError("name the jobs, or pass --task, --queue, --key or --workflow")
    app, printer = open_store(arguments), Printer()
    terminate: bool = arguments.terminate
    if arguments.jobs:
        answers = app.transport.revoke(arguments.jobs, terminate=terminate, by=whoami())
        for job_id, done in zip(arguments.jobs, answers, strict=True):
            printer.line(f"{job_id} {'revoked' if done else 'is finished or unknown'}")
        return Exit.OK if all(answers) else Exit.FAILED
    what = ", ".join(f"{name} {value!r}" for name, value in given.items())
    risk = "this takes jobs out for good"
    confirm(arguments, f"Revoke every unfinished job of {what}?", risk)
    printer.line(f"{counted(app.revoke(**given, terminate=terminate), 'job')} revoked")
    return Exit.OK


def revoked(arguments: argparse.Namespace) -> int:
    """List what was revoked, by whom and when."""
    app = open_store(arguments)
    printer, now = Printer(timezone=app.config.timezone), app.clock.now()
    wanted = {name: getattr(arguments, name) for name in ("task", "queue", "key", "workflow")}
    limit: int = arguments.limit
    jobs = app.revoked(**wanted, limit=limit + 1)
    if arguments.json:
        printer.json([as_document(job) for job in jobs[:limit]])
        return Exit.OK
    rows = [
        (
            job.id,
            job.task,
            job.queue,
            job.state,
            job.revoked_by or "",
            "" if job.revoked_at is None else f"{in_words(now - job.revoked_at)} ago",
        )
        for job in jobs[:limit]
    ]
    printer.table(("ID", "TASK", "QUEUE", "STATE", "BY", "WHEN"), rows)
    if len(jobs) > limit:
        printer.line(f"  (the first {limit}; --limit shows more)")
    return Exit.OK
