"""``taskmq payloads gc``."""

from __future__ import annotations

import argparse

import msgspec

from taskmq import ConfigError
from taskmq.payloads import sweep

from .admin import confirm
from .apps import open_store
from .exits import Exit
from .output import Printer
from .values import counted

__all__ = ["collect"]


def collect(arguments: argparse.Namespace) -> int:
    """Delete payloads of jobs that the store does not know."""
    app = open_store(arguments)
    if app.offload is None:
        raise ConfigError("which payload store? set payload_store, or TASKMQ_PAYLOAD_STORE")
    store = app.transport
    if not store.capabilities.shared:
        raise ConfigError(
            f"{app.store_name} is of this process alone: it would know none of the jobs"
        )
    if not arguments.dry_run:
        question = f"Delete the payloads in {app.offload.store!r} of jobs that {app.store_name} "
        confirm(arguments, f"{question}does not know?", "this deletes payloads for good")
    report = sweep(
        store,
        app.offload.store,
        now=app.clock.now(),
        older_than=arguments.older_than,
        limit=arguments.limit,
        dry_run=arguments.dry_run,
    )
    printer = Printer()
    if arguments.json:
        printer.json(msgspec.structs.asdict(report))
        return Exit.OK
    verb = "would be deleted" if arguments.dry_run else "deleted"
    printer.line(
        f"{counted(report.deleted, 'payload')} {verb} ({report.size:,} bytes); "
        f"{report.kept:,} kept, {report.young:,} too young to tell"
    )
    if not report.complete:
        printer.line(f"  there is more: run it again (--limit {arguments.limit})")
    return Exit.OK
