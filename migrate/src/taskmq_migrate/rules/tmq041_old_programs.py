"""``celeryd``, ``celerybeat`` and options that Celery 4 renamed or dropped."""

from __future__ import annotations

import re
from collections.abc import Iterator

from taskmq_migrate.commandfiles import in_files
from taskmq_migrate.commands import Command, commands
from taskmq_migrate.document import Document
from taskmq_migrate.model import Example, Kind, Page, Site
from taskmq_migrate.rule import TextRule
from taskmq_migrate.rules.tmq040_option_order import RULE as OPTION_ORDER
from taskmq_migrate.shellwords import celery_at

__all__ = ["RULE"]

PROGRAMS = {"celeryd": "worker", "celerybeat": "beat", "celeryev": "events"}
RENAMED = {
    "--maxtasksperchild": "--max-tasks-per-child",
    "--maxmemperchild": "--max-memory-per-child",
}
GONE = {
    "--autoreload": "Celery 4 dropped --autoreload: watch files with another program",
    "--no-execv": "Celery 4 dropped --no-execv: take it out",
    "--force-execv": "Celery 4 dropped --force-execv: take it out",
}
NAME = re.compile(r"((?:.*/)?)(celeryd|celerybeat|celeryev)")


class OldPrograms(TextRule):
    id = "TMQ041"
    title = "programs and options that Celery 4 renamed are called by their present names"
    kinds = OPTION_ORDER.kinds
    words = (*PROGRAMS, *RENAMED, *GONE)
    page = Page(
        why="celeryd, celerybeat and celeryev are commands of celery now, and "
        "--maxtasksperchild is --max-tasks-per-child. What was dropped is left with a marker.",
        risk="None where a command starts with the program. A service or file that has the same "
        "name (service celeryd start) is left alone.",
        examples=(
            Example(
                "start.sh",
                before="exec celeryd --maxtasksperchild=100\nservice celeryd start\n",
                after="exec celery worker --max-tasks-per-child=100\nservice celeryd start\n",
            ),
            Example(
                "Procfile",
                before="worker: celery worker --autoreload\n",
                after="# TODO(taskmq-migrate TMQ041): Celery 4 dropped --autoreload: watch files "
                "with another program\nworker: celery worker --autoreload\n",
            ),
            *in_files(
                OPTION_ORDER.kinds - {Kind.PROCFILE, Kind.SHELL},
                "/srv/bin/celerybeat -l info",
                "/srv/bin/celery beat -l info",
            ),
        ),
    )

    def sites(self, file: Document) -> Iterator[Site]:
        for command in commands(file):
            yield from self._program(file, command)
            if celery_at(command) is not None or self._starts_old(command) is not None:
                yield from self._options(file, command)

    def _starts_old(self, command: Command) -> int | None:
        for number, word in enumerate(command.words):
            if NAME.fullmatch(word.value):
                return number
            if word.value not in ("exec", "sudo", "nohup") and "=" not in word.value:
                return None
        return None

    def _program(self, file: Document, command: Command) -> Iterator[Site]:
        at = self._starts_old(command)
        if at is None or command.listed:
            return
        word = command.words[at]
        found = NAME.fullmatch(file.source(word.span))
        if found is not None:
            text = f"{found[1]}celery {PROGRAMS[found[2]]}"
            message = f"{found[2]} is celery {PROGRAMS[found[2]]}"
            yield file.convert(word.span, message, file.replace(word.span, text))

    def _options(self, file: Document, command: Command) -> Iterator[Site]:
        for word in command.words:
            name = word.value.partition("=")[0]
            if name in RENAMED:
                text = file.source(word.span).replace(name, RENAMED[name], 1)
                message = f"{name} is {RENAMED[name]}"
                yield file.convert(word.span, message, file.replace(word.span, text))
            elif name in GONE:
                yield file.mark(word.span, GONE[name])


RULE = OldPrograms()
