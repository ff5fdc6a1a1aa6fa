"""``celery.task`` and ``celery.decorators``: modules that Celery 5 no longer has."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Example, Page, Site
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

MOVED = {
    "celery.task.task": "celery.shared_task",
    "celery.decorators.task": "celery.shared_task",
    "celery.task.base.task": "celery.shared_task",
    "celery.task.Task": "celery.Task",
    "celery.task.base.Task": "celery.Task",
    "celery.task.current": "celery.current_task",
    "celery.task.schedules.crontab": "celery.schedules.crontab",
}


class TaskModule(PythonRule):
    id = "TMQ020"
    title = "names of celery.task and celery.decorators come from where Celery 5 has them"
    words = ("celery.task", "celery.decorators", "celery import task")
    page = Page(
        why="Celery 5 removed celery.task and celery.decorators; the shim does not have them "
        "either. Decorators become shared_task, whose options are the same.",
        risk="None for programs that run on Celery 4 or 5.",
        examples=(
            Example(
                "tasks.py",
                before="from celery.task import task\n\n\n@task(ignore_result=True)\n"
                "def add(x, y):\n    return x + y\n",
                after="from celery import shared_task\n\n\n@shared_task(ignore_result=True)\n"
                "def add(x, y):\n    return x + y\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for node in [*file.nodes(cst.Name), *file.nodes(cst.Attribute)]:
            if isinstance(file.parent(node), cst.Attribute | cst.ImportAlias | cst.AsName):
                continue
            (old,) = file.names(node) if len(file.names(node)) == 1 else ("",)
            new = MOVED.get(old)
            if new is None or file.enclosing(node, cst.ImportFrom) is not None:
                continue
            text, imports = file.import_as(new, node)
            yield file.convert_at(
                node,
                f"{old} is now {new}",
                file.swap(node, text),
                imports=imports,
                released=(node,),
            )


RULE = TaskModule()
