"""The report that people read in a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from taskmq_migrate.model import Status
from taskmq_migrate.project import Result

from .summary import rows, totals

__all__ = ["print_report"]

STYLES = {
    Status.CONVERTED: "green",
    Status.MARKED: "yellow",
    Status.UNSAFE: "magenta",
    Status.REPORTED: "cyan",
}


def print_report(console: Console, result: Result, *, done: bool, verbose: bool) -> None:
    """What was found, or done; ``verbose`` lists the converted sites too."""
    for finding in result.findings:
        if finding.status is Status.CONVERTED and not verbose:
            continue
        style = STYLES[finding.status]
        console.print(
            f"{escape(finding.path)}:{finding.line}:{finding.column}: "
            f"[bold]{finding.rule}[/] [{style}]{finding.status.value}[/] {escape(finding.message)}",
            soft_wrap=True,
            highlight=False,
        )
    for outcome in result.failed:
        console.print(
            f"{escape(outcome.path)}: [red]failed[/] {escape(outcome.error)}",
            soft_wrap=True,
            highlight=False,
        )
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("file")
    for name in ("converted", "marked", "unsafe", "reported"):
        table.add_column(name, justify="right")
    shown = [each for each in rows(result) if each.sites]
    for row in shown:
        table.add_row(
            escape(row.path),
            str(row.converted or "·"),
            str(row.marked or "·"),
            str(row.unsafe or "·"),
            str(row.reported or "·"),
        )
    if shown:
        console.print(table)
    numbers = totals(result)
    verb = "changed" if done else "to change"
    console.print(
        f"{numbers['files_seen']} files: {numbers['files_changed']} {verb}, "
        f"{numbers['files_untouched']} untouched, {numbers['files_failed']} failed. "
        f"{numbers['sites_found']} sites: {numbers['sites_converted']} converted, "
        f"{numbers['sites_marked']} marked, {numbers['sites_unsafe']} for --unsafe, "
        f"{numbers['sites_reported']} reported.",
        soft_wrap=True,
        highlight=False,
    )
