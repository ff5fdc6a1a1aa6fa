"""``taskmq-migrate``: the commands and their exit codes.

0 done or nothing to do, 1 changes needed, 2 some files failed, 3 markers remain under ``--strict``,
4 refused (nothing was changed).
"""

from __future__ import annotations

import sys
from enum import IntEnum
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from taskmq_migrate.diffing import diff as make_diff
from taskmq_migrate.engine import Outcome
from taskmq_migrate.model import Status
from taskmq_migrate.problems import Refused
from taskmq_migrate.project import Change, Result, Run, run
from taskmq_migrate.reports.machine import as_json as make_json
from taskmq_migrate.reports.machine import as_sarif as make_sarif
from taskmq_migrate.reports.page import as_html
from taskmq_migrate.reports.text import print_report
from taskmq_migrate.writing import refuse_dirty, write
from taskmq_migrate.writing import undo as undo_last

from .options import Asked, common
from .progress import watched
from .rules import explain, rules
from .stdin import from_stdin

__all__ = ["Exit", "main"]


class Exit(IntEnum):
    """Exit codes."""

    DONE = 0
    CHANGES_NEEDED = 1
    SOME_FAILED = 2
    MARKERS_REMAIN = 3
    REFUSED = 4


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="taskmq-migrate")
def cli() -> None:
    """Move a repository from Celery to taskmq."""


cli.add_command(rules)
cli.add_command(explain)


def _asked(options: dict[str, Any], **more: Any) -> Asked:
    names = ("paths", "to", "only", "skip", "exclude", "unsafe", "strict", "jobs")
    return Asked(**{name: options[name] for name in names}, **more)


def _report(
    result: Result, options: dict[str, Any], *, done: bool, title: str, output: bool = True
) -> None:
    if options["page"]:
        Path(options["page"]).write_text(as_html(result, title), encoding="utf-8")
    if not output:
        return
    if options["as_json"]:
        click.echo(make_json(result))
    elif options["as_sarif"]:
        click.echo(make_sarif(result))
    else:
        print_report(Console(), result, done=done, verbose=options["verbose"])


def _code(result: Result, *, strict: bool, needed: bool) -> Exit:
    if result.failed:
        return Exit.SOME_FAILED
    if strict and result.count(Status.MARKED):
        return Exit.MARKERS_REMAIN
    if needed and result.changes:
        return Exit.CHANGES_NEEDED
    return Exit.DONE


def _run(plan: Run) -> Result:
    with watched() as progress:
        return run(plan, progress)


@cli.command()
@common
def check(**options: Any) -> Exit:
    """Say what would change; exit 1 if anything would."""
    plan, strict = _asked(options).plan()
    result = _run(plan)
    _report(result, options, done=False, title="taskmq-migrate check")
    return _code(result, strict=strict, needed=True)


@cli.command()
@common
@click.option("--clean-markers", is_flag=True, help="Take markers out, and nothing else.")
@click.option("--stdin-filename", default="stdin.py", help="What - is the content of.")
def diff(clean_markers: bool, stdin_filename: str, **options: Any) -> Exit:
    """Print a patch for `git apply`; exit 1 if it is not empty."""
    plan, strict = _asked(options, clean_markers=clean_markers).plan()
    if options["paths"] == ("-",):
        before, outcome = from_stdin(plan, stdin_filename)
        result = _single(before, outcome)
    else:
        result = _run(plan)
    if options["as_json"] or options["as_sarif"]:
        _report(result, options, done=False, title="taskmq-migrate diff")
    else:
        _report(result, options, done=False, title="taskmq-migrate diff", output=False)
        for line in make_diff(result.changes):
            sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()
        _complain(result)
    return _code(result, strict=strict, needed=True)


@cli.command()
@common
@click.option("--clean-markers", is_flag=True, help="Take markers out, and nothing else.")
@click.option("--allow-dirty", is_flag=True, help="Also with uncommitted changes.")
@click.option("--stdin-filename", default="stdin.py", help="What - is the content of.")
def apply(clean_markers: bool, allow_dirty: bool, stdin_filename: str, **options: Any) -> Exit:
    """Make the changes. `-` reads one file from stdin and writes it to stdout."""
    plan, strict = _asked(options, clean_markers=clean_markers).plan()
    if options["paths"] == ("-",):
        before, outcome = from_stdin(plan, stdin_filename)
        sys.stdout.buffer.write(before if outcome.after is None else outcome.after)
        sys.stdout.buffer.flush()
        result = _single(before, outcome)
        _complain(result)
        return _code(result, strict=strict, needed=False)
    if not allow_dirty:
        refuse_dirty(plan.root)
    result = _run(plan)
    problems = dict(write(plan.root, result.changes))
    result.outcomes = [
        Outcome(each.path, error=problems[each.path]) if each.path in problems else each
        for each in result.outcomes
    ]
    result.changes = [each for each in result.changes if each.path not in problems]
    _report(result, options, done=True, title="taskmq-migrate apply")
    return _code(result, strict=strict, needed=False)


def _single(before: bytes, outcome: Outcome) -> Result:
    result = Result(seen=1, outcomes=[outcome])
    if outcome.after is not None:
        result.changes.append(Change(outcome.path, before, outcome.after))
    return result


def _complain(result: Result) -> None:
    for each in result.failed:
        click.echo(f"{each.path}: failed: {each.error}", err=True)


@cli.command()
def undo() -> Exit:
    """Take back the last apply, where there is no git."""
    restored = undo_last(Path.cwd())
    click.echo(f"{len(restored)} files restored")
    return Exit.DONE


@cli.command()
@common
def doctor(**options: Any) -> Exit:
    """Point at what no rewrite decides: settings without effect, risky arguments, …"""
    plan, _ = _asked({**options, "to": options["to"] or "shim"}, doctor=True).plan()
    result = _run(plan)
    _report(result, options, done=False, title="taskmq-migrate doctor")
    return Exit.SOME_FAILED if result.failed else Exit.DONE


def main(arguments: list[str] | None = None) -> None:
    """Run the command line, and exit."""
    try:
        code = cli.main(arguments, prog_name="taskmq-migrate", standalone_mode=False)
    except click.exceptions.Abort:
        click.echo("taskmq-migrate: interrupted", err=True)
        sys.exit(130)
    except (click.ClickException, Refused) as error:
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        click.echo(f"taskmq-migrate: {message}", err=True)
        sys.exit(Exit.REFUSED)
    sys.exit(int(code or 0))
