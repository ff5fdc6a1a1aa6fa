"""``pip install celery`` in Dockerfiles, scripts and workflows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from taskmq_migrate.commandfiles import in_files
from taskmq_migrate.commands import Command, commands
from taskmq_migrate.dependencies import SHIM, SHIM_VERSIONS, find_celery
from taskmq_migrate.document import Document
from taskmq_migrate.model import Example, Kind, Page, Site
from taskmq_migrate.rule import TextRule

__all__ = ["RULE"]


class PipInstall(TextRule):
    id = "TMQ009"
    title = "pip install celery becomes pip install taskmq-celery"
    kinds = frozenset({Kind.DOCKERFILE, Kind.YAML, Kind.SHELL, Kind.MAKEFILE, Kind.INI})
    words = ("celery",)
    page = Page(
        why="The shim is installed instead of Celery, never beside it.",
        risk="None: only the arguments of pip install, uv pip install, uv add, poetry add, "
        "pdm add and pipenv install are read.",
        examples=(
            Example(
                "Dockerfile",
                before='FROM python:3.12\nRUN pip install -U "celery[redis]>=5" gunicorn\n',
                after="FROM python:3.12\n"
                f'RUN pip install -U "{SHIM}[redis]{SHIM_VERSIONS}" gunicorn\n',
            ),
            *in_files(
                (Kind.INI, Kind.MAKEFILE, Kind.SHELL, Kind.YAML),
                "uv pip install celery gunicorn",
                f'uv pip install "{SHIM}{SHIM_VERSIONS}" gunicorn',
            ),
        ),
    )

    def sites(self, file: Document) -> Iterator[Site]:
        for command in commands(file):
            for number in range(_packages_from(command), len(command.words)):
                word = command.words[number]
                celery = find_celery(word.value)
                if celery is not None:
                    source = file.source(word.span)
                    quote = source[0] if source[0] in "'\"" else '"'
                    text = f"{quote}{celery.as_shim()}{quote}"
                    yield file.convert(
                        word.span, f"{word.value} becomes {SHIM}", file.replace(word.span, text)
                    )


def _packages_from(command: Command) -> int:
    """Where the packages begin in a command that installs some; behind the end in any other."""
    values = [each.value.rpartition("/")[2] for each in command.words]
    for number, (one, other) in enumerate(pairwise(values)):
        if other == "install" and (one.startswith("pip") or one == "pipenv"):
            return number + 2
        if other == "add" and one in ("uv", "poetry", "pdm"):
            return number + 2
    return len(values)


RULE = PipInstall()
