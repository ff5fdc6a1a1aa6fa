"""Doctor: options of ``celery worker`` that mean nothing here."""

from __future__ import annotations

from collections.abc import Iterator

from taskmq_migrate.commandfiles import in_files
from taskmq_migrate.commands import commands
from taskmq_migrate.document import Document
from taskmq_migrate.model import Example, Kind, Page, Safety, Site
from taskmq_migrate.rule import TextRule
from taskmq_migrate.rules.tmq040_option_order import RULE as OPTION_ORDER
from taskmq_migrate.shellwords import celery_at, subcommand_at

__all__ = ["RULE"]

FAIR = "jobs go to free slots anyway"
NOTHING_MISSING = "workers do not talk to each other: nothing is missing"
OF_TASKS = "time limits are those of tasks and settings"
OPTIONS = {
    "-O": FAIR,
    "-Ofair": FAIR,
    "--optimization": FAIR,
    "--without-gossip": NOTHING_MISSING,
    "--without-mingle": NOTHING_MISSING,
    "--soft-time-limit": OF_TASKS,
    "--time-limit": OF_TASKS,
    "--statedb": "revoked jobs are remembered by the store",
    "--pool-start-method": "pools work differently",
    "-S": "revoked jobs are remembered by the store",
}


class WorkerOptions(TextRule):
    id = "TMQ909"
    title = "an option of celery worker has no meaning here"
    kinds = OPTION_ORDER.kinds
    safety = Safety.REPORT_ONLY
    words = ("celery",)
    doctor = True
    page = Page(
        why="The shim's celery worker takes every option of Celery's; these change nothing. "
        "-O fair and what goes with it answered to how Celery shares jobs out.",
        risk="None: nothing is changed.",
        examples=(
            *in_files(
                OPTION_ORDER.kinds - {Kind.PROCFILE}, "/srv/bin/celery -A shop worker -O fair"
            ),
            Example(
                "Procfile",
                before="worker: celery -A shop worker -O fair --without-gossip -c 4\n"
                "beat: celery -A shop beat -S redbeat\n",
                reports=2,
            ),
        ),
    )

    def sites(self, file: Document) -> Iterator[Site]:
        for command in commands(file):
            celery = celery_at(command)
            place = subcommand_at(command, celery) if celery is not None else None
            if place is None or command.words[place].value != "worker":
                continue
            for word in command.words[place + 1 :]:
                name = word.value.partition("=")[0]
                if name in OPTIONS:
                    yield file.report(word.span, f"{name} has no meaning: {OPTIONS[name]}")


RULE = WorkerOptions()
