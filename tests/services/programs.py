"""Where Debian puts the programs of servers, on PATH or not."""

from __future__ import annotations

import shutil
from pathlib import Path

SBIN = Path("/usr/sbin")
RABBITMQ = Path("/usr/lib/rabbitmq/bin")
ERLANG = Path("/usr/lib/erlang/bin")
POSTGRESQL = Path("/usr/lib/postgresql")


class MissingProgram(Exception):
    """A program is not installed; `program` is its name."""

    def __init__(self, program: str) -> None:
        super().__init__(f"{program} is not installed")
        self.program = program


def find_program(program: str) -> Path:
    """The path of a server's program. Raises `MissingProgram`.

    RabbitMQ's own scripts come before those on PATH, which change the user; of several versions of
    PostgreSQL the newest is taken.
    """
    versions = [each for each in POSTGRESQL.glob("*/bin") if each.parent.name.isdecimal()]
    newest_first = sorted(versions, key=lambda each: int(each.parent.name), reverse=True)
    for folder in (RABBITMQ, *newest_first):
        if (folder / program).exists():
            return folder / program
    for path in (None, str(SBIN), str(ERLANG)):
        found = shutil.which(program, path=path)
        if found is not None:
            return Path(found)
    raise MissingProgram(program)
