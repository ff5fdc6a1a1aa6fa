"""Commands about one job or queue: ``inspect``, ``purge``."""

from __future__ import annotations

import argparse
import sys

from taskmq import UnknownJob
from taskmq.diagnose import diagnose
from taskmq.records import QueueStats

from .apps import open_store
from .exits import CommandFailed, Exit
from .job import as_document, show_facts, show_history
from .output import Printer
from .situation import situation_of
from .values import counted

__all__ = ["confirm", "inspect", "purge"]


def inspect(arguments: argparse.Namespace) -> int:
    """All that is known of one job, and why it is not running."""
    app = open_store(arguments)
    (job,) = app.transport.get([arguments.job])
    findings = diagnose(job, situation_of(app, job))
    if job is None:
        raise UnknownJob(f"no job {arguments.job}: {findings[0].text}")
    printer = Printer(timezone=app.config.timezone)
    if arguments.json:
        told = [{"code": each.code, "text": each.text} for each in findings]
        printer.json({"job": as_document(job), "findings": told})
        return Exit.OK
    show_facts(job, printer, app)
    printer.line()
    printer.heading("How it stands" if job.finished_at is None else "How it ended")
    for finding in findings:
        printer.line(f"  {finding.text}")
    show_history(job, printer)
    return Exit.OK


def purge(arguments: argparse.Namespace) -> int:
    """Delete what waits in a queue."""
    app = open_store(arguments)
    (depth, *_) = [*app.transport.stats([arguments.queue]), QueueStats(queue=arguments.queue)]
    waiting = depth.ready + depth.delayed
    confirm(arguments, f"Delete {counted(waiting, 'waiting job')} of queue {arguments.queue!r}?")
    Printer().line(f"{counted(app.transport.purge(arguments.queue), 'job')} deleted")
    return Exit.OK


def confirm(
    arguments: argparse.Namespace, question: str, risk: str = "this deletes jobs for good"
) -> None:
    """Go on only if the answer is yes. Raises `CommandFailed`."""
    if arguments.yes:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(f"{risk}: pass --yes to do so unasked", Exit.USAGE)
    sys.stderr.write(f"{question} [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandFailed("nothing was changed")
