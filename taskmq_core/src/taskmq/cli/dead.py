"""Commands about dead letters: ``dlq list``, ``show``, ``replay``, ``purge``."""

from __future__ import annotations

import argparse

from taskmq import ConfigError
from taskmq.diagnose import in_words
from taskmq.records import JobRecord

from .admin import confirm
from .apps import open_store
from .exits import CommandFailed, Exit
from .job import as_document, show_facts, show_history
from .output import Printer
from .values import counted, parse_json, shorten

__all__ = ["list_letters", "purge_letters", "replay", "show"]


def list_letters(arguments: argparse.Namespace) -> int:
    """One line for each dead letter, oldest first."""
    app = open_store(arguments)
    printer, limit = Printer(timezone=app.config.timezone), arguments.limit
    box = app.dead_letters
    letters = list(box.list(queue=arguments.queue, task=arguments.task, limit=limit + 1))
    if arguments.json:
        printer.json([as_document(letter) for letter in letters[:limit]])
        return Exit.OK
    now = app.clock.now()
    rows = [_row(letter, now) for letter in letters[:limit]]
    printer.table(("ID", "TASK", "QUEUE", "REASON", "DIED", "ERROR"), rows)
    if len(letters) > limit:
        printer.line(f"  (the first {limit}; --limit shows more)")
    return Exit.OK


def _row(letter: JobRecord, now: float) -> tuple[str, ...]:
    error = ""
    if letter.failure is not None:
        error = f"{letter.failure.type}: {letter.failure.message}".removesuffix(": ")
    died = "" if letter.finished_at is None else f"{in_words(now - letter.finished_at)} ago"
    return (
        letter.id,
        letter.task,
        letter.queue,
        letter.dead_reason or "",
        died,
        shorten(error, 60),
    )


def show(arguments: argparse.Namespace) -> int:
    """One dead letter with payload, history and traceback."""
    app = open_store(arguments)
    letter = app.dead_letters.get(arguments.job)
    printer = Printer(timezone=app.config.timezone)
    if arguments.json:
        printer.json(as_document(letter))
        return Exit.OK
    show_facts(letter, printer, app)
    show_history(letter, printer)
    return Exit.OK


def replay(arguments: argparse.Namespace) -> int:
    """Queue dead letters again: those named, changed if asked to, or all that match."""
    edits = (arguments.args, arguments.kwargs)
    if arguments.all == bool(arguments.jobs):
        raise ConfigError("name the dead letters to replay, or pass --all")
    if arguments.all and any(edits):
        raise ConfigError("--args and --kwargs change one dead letter: name it")
    if arguments.task and not arguments.all:
        raise ConfigError("--task selects among all: pass --all with it")
    app, printer = open_store(arguments), Printer()
    if arguments.all:
        count = app.dead_letters.replay_all(queue=arguments.queue, task=arguments.task)
        printer.line(f"{counted(count, 'job')} queued again")
        return Exit.OK
    if len(arguments.jobs) > 1 and any(edits):
        raise ConfigError("--args and --kwargs change one dead letter: name only that")
    args = parse_json("--args", arguments.args, list)
    kwargs = parse_json("--kwargs", arguments.kwargs, dict)
    for job_id in arguments.jobs:
        app.dead_letters.replay(job_id, args=args, kwargs=kwargs, queue=arguments.queue)
        printer.line(f"{job_id} queued again")
    return Exit.OK


def purge_letters(arguments: argparse.Namespace) -> int:
    """Delete dead letters for good."""
    if not (arguments.all or arguments.queue or arguments.task):
        raise ConfigError("which dead letters? pass --queue, --task or --all")
    if arguments.all and (arguments.queue or arguments.task):
        raise CommandFailed("--all takes no --queue or --task", Exit.USAGE)
    app = open_store(arguments)
    confirm(arguments, _question(arguments))
    count = app.dead_letters.purge(queue=arguments.queue, task=arguments.task)
    Printer().line(f"{counted(count, 'dead letter')} deleted")
    return Exit.OK


def _question(arguments: argparse.Namespace) -> str:
    where = f" of queue {arguments.queue!r}" if arguments.queue else ""
    what = f" of task {arguments.task!r}" if arguments.task else ""
    return f"Delete all dead letters{where}{what}?"
