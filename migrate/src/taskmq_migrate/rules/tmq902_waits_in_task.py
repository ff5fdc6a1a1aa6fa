"""Doctor: a task that waits for another one."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Example, Page, Safety, Site
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

WAITS = frozenset({"get", "join", "wait"})


class WaitsInTask(PythonRule):
    id = "TMQ902"
    title = "a task waits for the result of another one"
    safety = Safety.REPORT_ONLY
    words = ("elery", "taskmq")
    doctor = True
    page = Page(
        why="A task that waits holds its slot. When all slots wait for tasks that have none, "
        "nothing goes on; Celery refuses it unless it is told otherwise. What follows a task is a "
        "link, a chain or a chord; in the engine, a node of a workflow.",
        risk="None: nothing is changed.",
        examples=(
            Example(
                "tasks.py",
                before="from celery import shared_task\n\n\n"
                "@shared_task\ndef part(x): ...\n\n\n"
                "@shared_task\ndef whole(x):\n    return part.delay(x).get() + 1\n\n\n"
                "def script(x):\n    return part.delay(x).get()\n",
                reports=1,
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for call in file.nodes(cst.Call):
            method = call.func
            if not isinstance(method, cst.Attribute) or method.attr.value not in WAITS:
                continue
            function = file.enclosing(call, cst.FunctionDef)
            if function is None or not file.is_task(function.name):
                continue
            value: cst.BaseExpression | None = method.value
            if isinstance(value, cst.Name):
                value, _ = file.bound_to(value)
            if file.is_submission(value):
                yield file.report_at(
                    call, f"{function.name.value} holds its slot while another task runs"
                )


RULE = WaitsInTask()
