"""Where a command runs the program ``celery``, and which command of it."""

from __future__ import annotations

import re

from .commands import Command

__all__ = ["GLOBAL_WITH_VALUE", "PROGRAM_NAME", "SUBCOMMANDS", "celery_at", "subcommand_at"]

PROGRAM_NAME = "celery"
PROGRAM = re.compile(r"(?:.*/)?celery|\$\{?CELERY(?:_BIN)?\}?")
SUBCOMMANDS = frozenset(
    {
        "amqp",
        "beat",
        "call",
        "control",
        "events",
        "flower",
        "graph",
        "inspect",
        "list",
        "logtool",
        "migrate",
        "multi",
        "purge",
        "report",
        "result",
        "shell",
        "status",
        "upgrade",
        "worker",
    }
)
GLOBAL_WITH_VALUE = frozenset(
    {"-A", "-b", "--app", "--broker", "--config", "--loader", "--result-backend", "--workdir"}
)


def celery_at(command: Command) -> int | None:
    """The word that is the program; what follows it has to be a command or an option."""
    for number, word in enumerate(command.words):
        if PROGRAM.fullmatch(word.value) and subcommand_at(command, number) is not None:
            return number
    return None


def subcommand_at(command: Command, celery: int) -> int | None:
    """The word that is the command of ``celery``, options before it passed over."""
    position = celery + 1
    while position < len(command.words):
        value = command.words[position].value
        if not value.startswith("-"):
            return position if value in SUBCOMMANDS else None
        position += 2 if value in GLOBAL_WITH_VALUE else 1
    return None
