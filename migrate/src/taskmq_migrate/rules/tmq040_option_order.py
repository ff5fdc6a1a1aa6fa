"""``celery worker -A proj``: since Celery 5, options of the whole program go before the command."""

from __future__ import annotations

from collections.abc import Iterator

from taskmq_migrate.commandfiles import in_files
from taskmq_migrate.commands import Command, commands, moved
from taskmq_migrate.document import Document
from taskmq_migrate.model import Example, Kind, Page, Site, Span
from taskmq_migrate.rule import TextRule
from taskmq_migrate.shellwords import celery_at, subcommand_at

__all__ = ["RULE"]

WITH_VALUE = {
    "-A": "--app",
    "-b": "--broker",
    "--app": "--app",
    "--broker": "--broker",
    "--config": "--config",
    "--loader": "--loader",
    "--result-backend": "--result-backend",
    "--workdir": "--workdir",
}
FLAGS = frozenset({"-C", "--no-color", "-q", "--quiet"})


class OptionOrder(TextRule):
    id = "TMQ040"
    title = "options of the whole program go before the command, as Celery 5 wants them"
    kinds = frozenset(
        {
            Kind.PROCFILE,
            Kind.DOCKERFILE,
            Kind.YAML,
            Kind.SYSTEMD,
            Kind.INI,
            Kind.SHELL,
            Kind.MAKEFILE,
            Kind.PYTHON,
            Kind.TOML,
        }
    )
    words = ("celery", "CELERY_BIN")
    page = Page(
        why="Celery 4 took --app, --broker, --workdir and the like anywhere; Celery 5 and the shim "
        "take them before the command only, and end with an error otherwise.",
        risk="None: the words are the same, in another order. celery multi is left as it is, it "
        "takes them behind.",
        examples=(
            Example(
                "Procfile",
                before="web: gunicorn shop.wsgi\nworker: celery worker -A shop -l info\n",
                after="web: gunicorn shop.wsgi\nworker: celery -A shop worker -l info\n",
            ),
            Example(
                "Dockerfile",
                before='FROM python:3.12\nCMD ["celery", "worker", "--app", "shop", "-c", "4"]\n',
                after='FROM python:3.12\nCMD ["celery", "--app", "shop", "worker", "-c", "4"]\n',
            ),
            Example(
                "docker-compose.yml",
                before="services:\n  beat:\n    command: celery beat -A shop  # one of them\n",
                after="services:\n  beat:\n    command: celery -A shop beat  # one of them\n",
            ),
            Example(
                "templates/worker.yaml",
                before="{{- if .Values.worker }}\n"
                'command: ["celery", "worker", "-A", "shop"]\n{{- end }}\n',
                after="{{- if .Values.worker }}\n"
                'command: ["celery", "-A", "shop", "worker"]\n{{- end }}\n',
            ),
            *in_files(
                (Kind.INI, Kind.MAKEFILE, Kind.PYTHON, Kind.SHELL, Kind.SYSTEMD, Kind.TOML),
                "/srv/bin/celery worker -A shop -c 4",
                "/srv/bin/celery -A shop worker -c 4",
            ),
        ),
    )

    def sites(self, file: Document) -> Iterator[Site]:
        for command in commands(file):
            celery = celery_at(command)
            if celery is None:
                continue
            subcommand = subcommand_at(command, celery)
            if subcommand is None or command.words[subcommand].value == "multi":
                continue
            chosen = _global_options(command, subcommand + 1)
            if chosen:
                span = Span(command.words[subcommand].span.start, command.words[-1].span.end)
                name = command.words[subcommand].value
                edits = moved(file, command, celery, chosen)
                yield file.convert(span, f"options before celery {name}", *edits)


def _global_options(command: Command, start: int) -> list[int]:
    chosen: list[int] = []
    position = start
    words = command.words
    while position < len(words):
        value = words[position].value
        if value == "--":
            break
        if value in WITH_VALUE and position + 1 < len(words):
            chosen += [position, position + 1]
            position += 1
        elif _is_global(value):
            chosen.append(position)
        position += 1
    return chosen


def _is_global(value: str) -> bool:
    """Whether one word is such an option, with its value if it has one."""
    if value in FLAGS:
        return True
    if value.startswith("--"):
        return "=" in value and value.partition("=")[0] in WITH_VALUE
    return value[:2] in ("-A", "-b") and len(value) > 2


RULE = OptionOrder()
