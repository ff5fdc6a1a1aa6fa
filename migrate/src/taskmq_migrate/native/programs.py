"""Command lines of Celery's as those of the engine's program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from taskmq_migrate.commands import Command
from taskmq_migrate.document import Document
from taskmq_migrate.facts import Facts
from taskmq_migrate.model import Edit
from taskmq_migrate.problems import Unclear
from taskmq_migrate.shellwords import GLOBAL_WITH_VALUE, PROGRAM_NAME

__all__ = ["Rewriting", "rewritten"]

LEVELS = {
    **{each: each for each in ("debug", "info", "warning", "error", "critical")},
    "fatal": "critical",
    "warn": "warning",
}
POOLS = {"prefork": "processes", "processes": "processes", "threads": "threads", "solo": "solo"}
LONG = {
    "-A": "--app",
    "-B": "--beat",
    "-C": "--no-color",
    "-D": "--detach",
    "-E": "--task-events",
    "-I": "--include",
    "-O": "--optimization",
    "-P": "--pool",
    "-Q": "--queues",
    "-X": "--exclude-queues",
    "-b": "--broker",
    "-c": "--concurrency",
    "-f": "--logfile",
    "-l": "--loglevel",
    "-n": "--hostname",
    "-q": "--quiet",
    "--maxmemperchild": "--max-memory-per-child",
    "--maxtasksperchild": "--max-tasks-per-child",
    "--events": "--task-events",
}
FLAGS = frozenset(
    {
        "--beat",
        "--detach",
        "--discard",
        "--no-color",
        "--purge",
        "--quiet",
        "--skip-checks",
        "--task-events",
        "--without-gossip",
        "--without-heartbeat",
        "--without-mingle",
    }
)
# What the engine does anyway, or has no use for.
DROPPED = {
    "worker": frozenset(
        {
            "--beat",
            "--heartbeat-interval",
            "--no-color",
            "--optimization",
            "--prefetch-multiplier",
            "--quiet",
            "--skip-checks",
            "--task-events",
            "--without-gossip",
            "--without-heartbeat",
            "--without-mingle",
        }
    ),
    "beat": frozenset(
        {"--max-interval", "--no-color", "--quiet", "--schedule", "--skip-checks", "-s"}
    ),
}
SHORT = {"-n": "--name"}
"""Options of both whose short form is the same, and the long one is not."""
RENAMED = {
    "--app": "--app",
    "--concurrency": "--concurrency",
    "--loglevel": "--log-level",
    "--max-tasks-per-child": "--max-jobs-per-child",
    "--queues": "--queues",
}
WHY_NOT = {
    "--broker": "the store is in the app's Config",
    "--detach": "let a service manager start it: taskmq does not detach itself",
    "--exclude-queues": "name the queues to serve: -Q",
    "--include": "modules with tasks are App(include=[…])",
    "--logfile": "it logs to stderr: redirect that",
    "--pidfile": "there are no pid files: a service manager knows its processes",
    "--purge": "`taskmq purge --queue` is a command of its own",
    "--scheduler": "schedules are in the store: app.schedule(…) and `taskmq schedule`",
    "--soft-time-limit": "timeout= stands at each task",
    "--time-limit": "hard_timeout= stands at each task",
    "--uid": "let a service manager choose the user",
    "--workdir": "start it in that folder",
}
COMMANDS = {
    "call": "`taskmq call TASK` wants an app that knows the task",
    "control": "`taskmq pause`, `revoke` and app.pause(…) are stored for all workers",
    "events": "events are given to sinks: --events, app.add_sink(…)",
    "flower": "flower reads Celery's events: see `taskmq status` and the dashboards",
    "inspect": "probes are `taskmq health --socket PATH` with worker --health-socket; people "
    "have `taskmq status`",
    "multi": "let a service manager start several `taskmq worker`",
    "purge": "`taskmq purge --queue QUEUE` deletes what waits in a queue",
    "shell": "import the app in a shell of Python",
}


@dataclass
class Rewriting:
    """Edits for one command, word by word."""

    edits: list[Edit] = field(default_factory=list)
    guessed: bool = False
    """Whether a value is taken for what it usually is, without seeing it."""


@dataclass(frozen=True)
class _Option:
    name: str
    value: str | None
    first: int
    last: int
    joined: bool


def rewritten(file: Document, command: Command, celery: int, place: int) -> Rewriting:
    """``celery … worker …`` as ``taskmq … worker …``. Raises `Unclear`."""
    name = command.words[place].value
    if name not in DROPPED and name != "status":
        why = COMMANDS.get(name, "see `taskmq --help`")
        raise Unclear(f"celery {name} has no counterpart of that name: {why}")
    program = command.words[celery]
    head = program.value.removesuffix(PROGRAM_NAME)
    if not program.value.endswith(PROGRAM_NAME):
        raise Unclear("the program is named by a variable: let it be taskmq")
    made = Rewriting()
    _put(file, command, celery, f"{head}taskmq", made)
    for option in _options(command, celery, place):
        _option(file, command, name, option, made)
    return made


def _options(command: Command, celery: int, place: int) -> Iterator[_Option]:
    words = command.words
    position = celery + 1
    while position < len(words):
        text = words[position].value
        if position == place:
            position += 1
            continue
        if text == "--" or not text.startswith("-"):
            raise Unclear(f"{text}: settings are in the app's Config")
        if text.startswith("--"):
            name, equals, value = text.partition("=")
        else:
            name, value, equals = text[:2], text[2:], text[2:]
        name = LONG.get(name, name)
        if name in FLAGS and not equals:
            yield _Option(name, None, position, position, joined=False)
            position += 1
        elif equals:
            yield _Option(name, value, position, position, joined=True)
            position += 1
        elif position + 1 < len(words) or name in GLOBAL_WITH_VALUE:
            if position + 1 >= len(words):
                raise Unclear(f"{name} wants a value")
            yield _Option(name, words[position + 1].value, position, position + 1, joined=False)
            position += 2
        else:
            raise Unclear(f"{name}: taskmq has no such option")


def _option(
    file: Document, command: Command, program: str, option: _Option, made: Rewriting
) -> None:
    if option.name in DROPPED.get(program, ()):
        for each in range(option.first, option.last + 1):
            _drop(file, command, each, made)
        return
    name, value = RENAMED.get(option.name, ""), option.value or ""
    if option.name == "--app":
        value = _app(file.facts, value, made)
    elif option.name == "--loglevel":
        value = _level(value, made)
    elif option.name == "--pool":
        name, value = "--pool", _pool(value)
    elif option.name == "--hostname":
        name, value = "--name", value.partition("@")[0]
        if "%" in value or not value:
            for each in range(option.first, option.last + 1):
                _drop(file, command, each, made)
            return
    elif option.name == "--max-memory-per-child":
        name, value = option.name, f"{_digits(option.name, value)}K"
    elif option.name == "--autoscale":
        most, _, least = value.partition(",")
        name = option.name
        value = f"{_digits(name, least or '0')},{_digits(name, most)}"
    elif not name:
        why = WHY_NOT.get(option.name, "taskmq has no such option")
        raise Unclear(f"{option.name}: {why}")
    if option.joined:
        _put(file, command, option.first, f"{name}={value}", made)
        return
    written = command.words[option.first].value
    if name not in (written, LONG.get(written), SHORT.get(written)):
        _put(file, command, option.first, name, made)
    if value != option.value:
        _put(file, command, option.last, value, made)


def _app(facts: Facts, value: str, made: Rewriting) -> str:
    found = facts.app_path(value)
    if found is None:
        made.guessed = True
        return value
    return found


def _level(value: str, made: Rewriting) -> str:
    if "$" in value or "{" in value:
        made.guessed = True
        return value
    level = LEVELS.get(value.lower())
    if level is None:
        raise Unclear(f"--log-level: there is no level {value}")
    return level


def _pool(value: str) -> str:
    if value not in POOLS:
        raise Unclear(f"--pool: {value} has no counterpart; pools are {', '.join(POOLS)}, asyncio")
    return POOLS[value]


def _digits(name: str, value: str) -> str:
    if not value.isdigit():
        raise Unclear(f"{name}: its value is not written out here")
    return value


def _put(file: Document, command: Command, number: int, text: str, made: Rewriting) -> None:
    """Write a word in the place of another one, in its quotes."""
    span = command.words[number].span
    source = file.source(span)
    quote = source[0] if source[0] in "'\"" and source.endswith(source[0]) else ""
    if f"{quote}{text}{quote}" != source:
        made.edits.append(file.replace(span, f"{quote}{text}{quote}"))


def _drop(file: Document, command: Command, number: int, made: Rewriting) -> None:
    """Take a word out, and what separates it from the one before."""
    start, end = command.words[number - 1].span.end, command.words[number].span.end
    if "#" in file.text[start : command.words[number].span.start]:
        raise Unclear("a comment stands between its words")
    made.edits.append(Edit(start, end, ()))
