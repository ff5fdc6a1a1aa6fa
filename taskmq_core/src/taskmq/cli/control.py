"""Commands that decide what runs: ``pause``, ``resume``, ``revoke``."""

from __future__ import annotations

import argparse
import sys

from taskmq import App, ConfigError
from taskmq.checks import nearest
from taskmq.diagnose import in_words

from .admin import confirm
from .apps import open_store
from .exits import CommandFailed, Exit
from .output import Printer
from .values import counted

__all__ = ["pause", "resume", "revoke"]


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
        answers = app.transport.revoke(arguments.jobs, terminate=terminate)
        for job_id, done in zip(arguments.jobs, answers, strict=True):
            printer.line(f"{job_id} {'revoked' if done else 'is finished or unknown'}")
        return Exit.OK if all(answers) else Exit.FAILED
    what = ", ".join(f"{name} {value!r}" for name, value in given.items())
    risk = "this takes jobs out for good"
    confirm(arguments, f"Revoke every unfinished job of {what}?", risk)
    printer.line(f"{counted(app.revoke(**given, terminate=terminate), 'job')} revoked")
    return Exit.OK
