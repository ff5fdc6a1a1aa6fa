"""Doctor: settings about taking jobs in advance, and what was said of them."""

from __future__ import annotations

from collections.abc import Iterator

from taskmq_migrate.model import Example, Page, Safety, Site
from taskmq_migrate.noeffect import PREFETCH
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule
from taskmq_migrate.settingsites import settings_in

__all__ = ["RULE"]


class Prefetch(PythonRule):
    id = "TMQ908"
    title = "how much is taken in advance decides itself"
    safety = Safety.REPORT_ONLY
    words = ("prefetch", "PREFETCH")
    doctor = True
    page = Page(
        why="With Celery a worker holds four jobs for each slot unless it is told otherwise, and a "
        "long task keeps those behind it from idle workers. Hence the advice: "
        "worker_prefetch_multiplier = 1 with acks_late, and -O fair. Here a worker measures: long "
        "jobs come one for each free slot, short ones in batches, and what was not started goes "
        "back when something more urgent comes. Both can go; as an option of the worker the "
        "multiplier is still a ceiling.",
        risk="None: nothing is changed.",
        examples=(
            Example(
                "app.py",
                before='from celery import Celery\n\napp = Celery("shop")\n'
                "app.conf.worker_prefetch_multiplier = 1\n",
                reports=1,
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for node, name, _ in settings_in(file):
            if name in PREFETCH:
                yield file.report_at(node, f"{name}: a worker measures how much it takes here")


RULE = Prefetch()
