"""``taskmq spool list``, ``flush`` and ``discard``."""

from __future__ import annotations

import argparse

from taskmq import ConfigError
from taskmq.errors import TransportUnavailable
from taskmq.spool import Spool

from .admin import confirm
from .apps import open_store
from .exits import Exit
from .output import Printer
from .values import counted

__all__ = ["discard_spooled", "flush_spool", "list_spooled"]


def list_spooled(arguments: argparse.Namespace) -> int:
    """How many jobs wait, and those that the store refused."""
    spool = _spool(arguments)
    waiting, refused = spool.file.waiting(), spool.file.refused()
    printer = Printer()
    if arguments.json:
        jobs = [{**vars(each)} for each in refused]
        printer.json({"path": str(spool.file.path), "waiting": waiting, "refused": jobs})
        return Exit.OK
    printer.line(f"{spool.file.path}: {counted(waiting, 'job')} to be stored")
    if refused:
        printer.line()
        printer.table(
            ("REFUSED JOB", "TASK", "QUEUE", "SPOOLED AT", "REASON"),
            [
                (job.job_id, job.task, job.queue, printer.instant(job.spooled_at), job.reason)
                for job in refused
            ],
        )
    return Exit.OK


def flush_spool(arguments: argparse.Namespace) -> int:
    """Store everything that waits. Exit code 1 if something is left."""
    spool = _spool(arguments)
    if arguments.refused:
        spool.file.reconsider()
    done = spool.flush()
    if done is None:
        raise TransportUnavailable(f"{spool.file.path}: another process is forwarding it")
    printer = Printer()
    if arguments.json:
        printer.json(vars(done))
    else:
        printer.line(
            f"{counted(done.stored, 'job')} stored, {done.refused:,} refused, {done.waiting:,} left"
        )
    return Exit.FAILED if done.waiting or done.refused else Exit.OK


def discard_spooled(arguments: argparse.Namespace) -> int:
    """Delete jobs from the spool."""
    spool = _spool(arguments)
    count = counted(len(arguments.ids), "job")
    confirm(
        arguments, f"Delete {count} from {spool.file.path}?", "this deletes jobs that never ran"
    )
    Printer().line(f"{counted(spool.file.discard(arguments.ids), 'job')} deleted")
    return Exit.OK


def _spool(arguments: argparse.Namespace) -> Spool:
    spool = open_store(arguments).spool
    if spool is None:
        raise ConfigError("which spool? set spool, or TASKMQ_SPOOL")
    return spool
