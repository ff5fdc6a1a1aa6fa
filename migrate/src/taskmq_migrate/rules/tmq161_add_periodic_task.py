"""``add_periodic_task``: schedules that a receiver adds."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Example, Page, Safety, Site, Target
from taskmq_migrate.names import dotted
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

SIGNALS = ("on_after_configure", "on_after_finalize")


class AddPeriodicTask(PythonRule):
    id = "TMQ161"
    title = "add_periodic_task(...) is to become app.schedule(...)"
    safety = Safety.REPORT_ONLY
    targets = frozenset({Target.NATIVE})
    words = ("add_periodic_task", "on_after_configure", "on_after_finalize")
    page = Page(
        why="The engine's schedules name their task, so they can stand at the top of a module, "
        "before the task is defined: no receiver has to wait until the app is complete.",
        risk="None: nothing is changed but for the marker.",
        examples=(
            Example(
                "app.py",
                before="from celery import Celery\n\n"
                'app = Celery("shop")\n\n\n'
                "@app.on_after_configure.connect\n"
                "def set_up(sender, **kwargs):\n"
                "    sender.add_periodic_task(10.0, check.s())\n",
                after="from celery import Celery\n\n"
                'app = Celery("shop")\n\n\n'
                "# TODO(taskmq-migrate TMQ161): write app.schedule(every(task, seconds=…), "
                "cron(task, …)) at the top of a module, with the names of the tasks\n"
                "@app.on_after_configure.connect\n"
                "def set_up(sender, **kwargs):\n"
                "    sender.add_periodic_task(10.0, check.s())\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        seen: set[cst.CSTNode] = set()
        for node in file.nodes(cst.Attribute):
            signal = node.attr.value in SIGNALS and file.is_app(node.value)
            added = node.attr.value == "add_periodic_task" and (
                file.is_app(node.value) or _receives(file, node)
            )
            if not signal and not added:
                continue
            function = file.enclosing(node, cst.FunctionDef)
            place: cst.CSTNode = node
            if function is not None and _connected(function):
                place = function.decorators[0]
            if place not in seen:
                seen.add(place)
                yield file.mark_at(
                    place,
                    "write app.schedule(every(task, seconds=…), cron(task, …)) at the top of a "
                    "module, with the names of the tasks",
                )


def _connected(function: cst.FunctionDef) -> bool:
    return any(
        dotted(each.decorator).rpartition(".")[0].rpartition(".")[2] in SIGNALS
        for each in function.decorators
    )


def _receives(file: PythonFile, node: cst.Attribute) -> bool:
    """Whether this is asked of what a receiver of these signals is given."""
    function = file.enclosing(node, cst.FunctionDef)
    return function is not None and _connected(function)


RULE = AddPeriodicTask()
