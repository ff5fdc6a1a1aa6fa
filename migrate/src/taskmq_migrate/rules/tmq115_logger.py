"""``get_task_logger``: ordinary logging."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Example, Page, Site, Target
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]


class TaskLogger(PythonRule):
    id = "TMQ115"
    title = "get_task_logger(...) becomes logging.getLogger(...)"
    targets = frozenset({Target.NATIVE})
    words = ("get_task_logger",)
    page = Page(
        why="Ordinary logging works in tasks of the engine; a logger that knows the job is "
        "current_task().log.",
        risk="The logger is no longer a child of celery.task: filters and handlers for that name "
        "see it no more.",
        examples=(
            Example(
                "tasks.py",
                before="from celery.utils.log import get_task_logger\n\nlogger = "
                "get_task_logger(__name__)\n",
                after="from logging import getLogger\n\nlogger = getLogger(__name__)\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for call in file.nodes(cst.Call):
            if file.is_(call.func, "celery.utils.log.get_task_logger"):
                text, imports = file.import_as("logging.getLogger", call)
                yield file.convert_at(
                    call,
                    "an ordinary logger",
                    file.replace(file.span(call.func), text),
                    imports=imports,
                    released=(call.func,),
                )


RULE = TaskLogger()
