"""``task.get_logger()``: tasks have no logger of their own since Celery 4."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Example, Page, Site
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]


class TaskLogger(PythonRule):
    id = "TMQ023"
    title = "get_logger() of a task becomes get_task_logger(__name__)"
    words = ("celery",)
    strict_words = True
    page = Page(
        why="Task.get_logger went with Celery 4. get_task_logger gives a logger that Celery's "
        "worker configures.",
        risk="None; records carry the name of the module.",
        examples=(
            Example(
                "tasks.py",
                before="from celery import shared_task\n\n\n@shared_task\ndef add(x, y):\n"
                "    add.get_logger().info('adding')\n    return x + y\n",
                after="from celery import shared_task\nfrom celery.utils.log import "
                "get_task_logger\n\n\n@shared_task\ndef add(x, y):\n"
                "    get_task_logger(__name__).info('adding')\n    return x + y\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for call in file.nodes(cst.Call):
            func = call.func
            if (
                isinstance(func, cst.Attribute)
                and func.attr.value == "get_logger"
                and file.is_task(func.value)
                and not call.args
            ):
                text, imports = file.import_as("celery.utils.log.get_task_logger", func)
                edit = file.swap(call, f"{text}(__name__)")
                yield file.convert_at(call, "tasks have no get_logger()", edit, imports=imports)


RULE = TaskLogger()
