"""``celery -A proj worker``: the command lines that start workers."""

from __future__ import annotations

from collections.abc import Iterator

from taskmq_migrate.commandfiles import in_files
from taskmq_migrate.commands import commands
from taskmq_migrate.document import Document
from taskmq_migrate.model import Example, Kind, Page, Safety, Site, Span, Target
from taskmq_migrate.native.programs import rewritten
from taskmq_migrate.problems import Unclear
from taskmq_migrate.rule import TextRule
from taskmq_migrate.rules.tmq040_option_order import RULE as OPTION_ORDER
from taskmq_migrate.shellwords import celery_at, subcommand_at

__all__ = ["RULE"]


class Programs(TextRule):
    id = "TMQ150"
    title = "celery worker and celery beat become taskmq worker and taskmq beat"
    targets = frozenset({Target.NATIVE})
    kinds = OPTION_ORDER.kinds
    words = ("celery", "CELERY_BIN")
    page = Page(
        why="Workers of the engine are started by its own program. -c, -Q and --autoscale are the "
        "same, levels are written small, a pool of processes is --pool processes; options about "
        "gossip, events and prefetching go. Schedules run in every worker: -B goes, and beat is a "
        "convenience.",
        risk="--app wants the module that holds the app, as module:name: it is looked for in this "
        "repository, and where it is not found the conversion waits for --unsafe. Pid files, log "
        "files, users and time limits on the command line are marked.",
        examples=(
            Example(
                "Procfile",
                before="web: gunicorn shop.wsgi\n"
                "worker: celery -A shop.app worker -l INFO -P prefork -Q mail,celery -E\n"
                "beat: celery -A shop.app beat --loglevel=info -s /tmp/beat.db\n"
                "probe: celery -A shop.app inspect ping\n",
                after="web: gunicorn shop.wsgi\n"
                "worker: taskmq -A shop.app worker --log-level info -P processes -Q mail,celery\n"
                "beat: taskmq -A shop.app beat --log-level=info\n"
                "# TODO(taskmq-migrate TMQ150): celery inspect has no counterpart of that name: "
                "probes are `taskmq health --socket PATH` with worker --health-socket; people have "
                "`taskmq status`\n"
                "probe: celery -A shop.app inspect ping\n",
            ),
            Example(
                "docker-compose.yml",
                before="services:\n  worker:\n    command:\n      - celery\n      - -A\n"
                "      - shop.app\n      - worker\n      - --without-gossip\n      - -c4\n",
                after="services:\n  worker:\n    command:\n      - taskmq\n      - -A\n"
                "      - shop.app\n      - worker\n      - --concurrency=4\n",
            ),
            *in_files(
                OPTION_ORDER.kinds - {Kind.PROCFILE, Kind.YAML},
                "/srv/bin/celery -A shop.app worker -Ofair -l INFO",
                "/srv/bin/taskmq -A shop.app worker --log-level info",
            ),
            Example(
                "manage.py",
                before='import subprocess\n\nsubprocess.run(["celery", "-A", "shop.app", "worker", '
                '"-B", "-c", str(n)])\n',
                after='import subprocess\n\nsubprocess.run(["taskmq", "-A", "shop.app", "worker", '
                '"-c", str(n)])\n',
            ),
        ),
    )

    def sites(self, file: Document) -> Iterator[Site]:
        for command in commands(file):
            celery = celery_at(command)
            place = subcommand_at(command, celery) if celery is not None else None
            if celery is None or place is None:
                continue
            span = Span(command.words[celery].span.start, command.words[-1].span.end)
            try:
                made = rewritten(file, command, celery, place)
            except Unclear as problem:
                yield file.mark(span, str(problem))
                continue
            yield file.convert(
                span,
                f"taskmq {command.words[place].value}",
                *made.edits,
                safety=Safety.UNSAFE if made.guessed else None,
            )


RULE = Programs()
