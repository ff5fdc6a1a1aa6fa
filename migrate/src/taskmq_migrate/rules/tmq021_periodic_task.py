"""``@periodic_task``: a task with a schedule of its own, until Celery 4."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Edit, Example, Page, Safety, Site
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

DECORATORS = (
    "celery.decorators.periodic_task",
    "celery.task.base.periodic_task",
    "celery.task.periodic_task",
)
CLASSES = ("celery.task.PeriodicTask", "celery.task.base.PeriodicTask")
BY_HAND = "periodic_task went with Celery 5: use shared_task, and an entry in beat_schedule"


class PeriodicTask(PythonRule):
    id = "TMQ021"
    title = "periodic_task becomes shared_task and a call of add_periodic_task"
    safety = Safety.UNSAFE
    words = ("periodic_task", "PeriodicTask")
    strict_words = True
    page = Page(
        why="Celery 5 removed periodic_task and PeriodicTask. The schedule goes to the app, right "
        "below the task.",
        risk="The app has to be the current one when the module is imported, as it is where the "
        "package imports its app first. A schedule that replaces beat_schedule as a whole later "
        "would lose the entry.",
        examples=(
            Example(
                "tasks.py",
                before="from celery.schedules import crontab\n"
                "from celery.task import periodic_task\n"
                "\n\n@periodic_task(run_every=crontab(minute=0), ignore_result=True)\n"
                "def sweep():\n    return 1\n",
                after="from celery.schedules import crontab\n"
                "from celery import current_app, shared_task\n\n\n"
                "@shared_task(ignore_result=True)\ndef sweep():\n    return 1\n\n\n"
                "current_app.add_periodic_task(crontab(minute=0), sweep.s())\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for function in file.nodes(cst.FunctionDef):
            for decorator in function.decorators:
                call = decorator.decorator
                func = call.func if isinstance(call, cst.Call) else call
                if file.is_(func, *DECORATORS):
                    yield self._function(file, function, call)
        for node in file.nodes(cst.ClassDef):
            if any(file.is_(each.value, *CLASSES) for each in node.bases):
                yield file.mark_at(node, BY_HAND)

    def _function(
        self, file: PythonFile, function: cst.FunctionDef, call: cst.BaseExpression
    ) -> Site:
        if not isinstance(call, cst.Call) or file.parent(function) is not file.module:
            return file.mark_at(function, BY_HAND)
        schedule = [each for each in call.args if _name(each) == "run_every"]
        schedule = schedule or [each for each in call.args[:1] if each.keyword is None]
        rest = [each for each in call.args if each not in schedule]
        if len(schedule) != 1 or any(each.keyword is None for each in rest):
            return file.mark_at(function, BY_HAND)
        shared, first = file.import_as("celery.shared_task", call.func)
        app, second = file.import_as("celery.current_app", call.func)
        options = ", ".join(f"{_name(each)}={file.code(each.value)}" for each in rest)
        decorator = f"{shared}({options})" if rest else shared
        end = file.span(function).end
        gap = file.newline * 3 if not file.text[end:].startswith(file.newline * 2) else ""
        gap = gap or file.newline * 3
        name = function.name.value
        text = f"{gap}{app}.add_periodic_task({file.code(schedule[0].value)}, {name}.s())"
        edits: list[Edit] = [file.swap(call, decorator), file.insert(self._end(file, end), text)]
        return file.convert_at(call, BY_HAND, *edits, imports=first + second, released=(call.func,))

    def _end(self, file: PythonFile, end: int) -> int:
        """The end of the text of a function: without the line end that belongs to it."""
        return end - len(file.text[:end]) + len(file.text[:end].rstrip("\r\n"))


def _name(argument: cst.Arg) -> str:
    return argument.keyword.value if argument.keyword is not None else ""


RULE = PeriodicTask()
