"""``celery logtool``: what a worker's log tells."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple, TextIO

import click

from celery.bin.base import CeleryCommand, handle_preload_options

__all__ = ("logtool",)

# Compiled by whoever reads a log: every `celery` loads this module.
HEAD = r"^\[[^\]]*: (?P<level>[A-Z]+)/[^\]]*\] (?P<message>.*)"
TASK = (
    r"^Task (?P<name>\S+)\[(?P<id>[^\]]+)\] "
    r"(?P<what>received|succeeded|raised|retry|ignored|rejected|revoked|discarded)"
)
ENDS = ("succeeded", "raised", "ignored", "rejected", "revoked", "discarded")

REPORT = """
Report
======
Task total: {total}
Task errors: {errors}
Task success: {success}
Task completed: {completed}
Tasks
=====
{tasks}"""


class Entry(NamedTuple):
    """One record of a log: its lines, and what its first one says of a task."""

    lines: list[str]
    level: str
    task: re.Match[str] | None

    @property
    def what(self) -> str:
        return self.task["what"] if self.task else ""


def entries(files: tuple[TextIO, ...]) -> Iterator[Entry]:
    """The records of logs. Lines that start none belong to the one before."""
    head_of, task_of = re.compile(HEAD), re.compile(TASK)
    current: Entry | None = None
    for file in files:
        for raw in file:
            line = raw.rstrip("\n")
            head = head_of.match(line)
            if head is None:
                if current is not None:
                    current.lines.append(line)
                continue
            if current is not None:
                yield current
            current = Entry([line], head["level"], task_of.match(head["message"]))
    if current is not None:
        yield current


logs = click.argument("files", nargs=-1, type=click.File("r"))


@click.group()
@click.pass_context
@handle_preload_options
def logtool(ctx: click.Context) -> None:
    """Read a worker's log (of the default format)."""


@logtool.command(cls=CeleryCommand)
@logs
@click.pass_context
def stats(ctx: click.Context, files: tuple[TextIO, ...]) -> None:
    """Count tasks, and how they ended."""
    names: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    for entry in entries(files):
        if entry.task is None:
            continue
        ends[entry.what] += 1
        names[entry.task["name"]] += entry.what == "received"
    ctx.obj.echo(
        REPORT.format(
            total=ends["received"],
            errors=ends["raised"],
            success=ends["succeeded"],
            completed=sum(ends[one] for one in ENDS),
            tasks="\n".join(f"{name}: {count}" for name, count in names.most_common()),
        )
    )


@logtool.command(cls=CeleryCommand)
@logs
@click.pass_context
def traces(ctx: click.Context, files: tuple[TextIO, ...]) -> None:
    """Print the records that have a traceback."""
    for entry in entries(files):
        if any(line.startswith("Traceback (most recent call last)") for line in entry.lines):
            ctx.obj.echo("\n".join(entry.lines))


@logtool.command(cls=CeleryCommand)
@logs
@click.pass_context
def errors(ctx: click.Context, files: tuple[TextIO, ...]) -> None:
    """Print the first line of each error."""
    for entry in entries(files):
        if entry.level in ("ERROR", "CRITICAL"):
            ctx.obj.echo(entry.lines[0])


@logtool.command(cls=CeleryCommand)
@logs
@click.pass_context
def incomplete(ctx: click.Context, files: tuple[TextIO, ...]) -> None:
    """Print the ids of tasks that were received and have not ended."""
    waiting: dict[str, None] = {}
    for entry in entries(files):
        if entry.task is None:
            continue
        if entry.what in ENDS:
            waiting.pop(entry.task["id"], None)
        else:
            waiting[entry.task["id"]] = None
    for task_id in waiting:
        ctx.obj.echo(f"Did not complete: {task_id}")


@logtool.command(cls=CeleryCommand)
@logs
@click.pass_context
def debug(ctx: click.Context, files: tuple[TextIO, ...]) -> None:
    """Print the records that are about no task."""
    for entry in entries(files):
        if entry.task is None:
            ctx.obj.echo("\n".join(entry.lines))
