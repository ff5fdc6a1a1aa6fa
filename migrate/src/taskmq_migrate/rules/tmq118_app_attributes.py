"""``app.control``, ``app.tasks``: what is asked of an app that the engine's does not have."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Example, Page, Safety, Site, Target
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

CONNECTIONS = "app.transport is the store, and nobody else's connection"
WHY_NOT = {
    "GroupResult": "a group is a workflow: its WorkflowRun has results and states",
    "WorkController": "taskmq.worker.Worker(app).run()",
    "Worker": "taskmq.worker.Worker(app).run()",
    "amqp": CONNECTIONS,
    "annotations": "policies are options of the tasks",
    "backend": "results are in the store: app.result(id)",
    "broker_connection": CONNECTIONS,
    "connection": CONNECTIONS,
    "connection_for_read": CONNECTIONS,
    "connection_for_write": CONNECTIONS,
    "connection_or_acquire": CONNECTIONS,
    "control": "app.result(id).revoke() takes a job out, app.pause(queue) stops a queue, and "
    "`taskmq status` shows workers and jobs",
    "events": "app.add_sink(…) is told of every event",
    "gen_task_name": "the name of a task is its module and function",
    "loader": "App(include=[…]) and app.load() import the modules with tasks",
    "producer_or_acquire": CONNECTIONS,
    "producer_pool": CONNECTIONS,
    "send_task": "import the task and submit it: app.submit(task.call(…))",
    "signature": "task.call(…) is a request as a value",
    "start": "programs of the engine are started by `taskmq`",
    "steps": "WorkerHook has the life of a worker: app.add_hook()",
    "tasks": "app.tasks.names() has the names, once app.load() was called",
    "worker_main": "taskmq.worker.Worker(app).run()",
}


class AppAttributes(PythonRule):
    id = "TMQ118"
    title = "what is asked of an app, and the engine's app does not have"
    safety = Safety.REPORT_ONLY
    targets = frozenset({Target.NATIVE})
    words = ("elery", "taskmq")
    page = Page(
        why="An app of the engine has other methods: each use of one that Celery's has alone gets "
        "a marker, with what there is in its place. What is asked of celery.current_app is marked "
        "once, where that is imported (TMQ190).",
        risk="None: nothing is changed but for the marker.",
        examples=(
            Example(
                "names.py",
                before="from shop.app import app\n\n"
                'print("send" in app.tasks, app.tasks["send"])\nprint(app.tasks.keys())\n',
                after="from shop.app import app\n\n"
                'print("send" in app.tasks, app.tasks["send"])\n'
                "# TODO(taskmq-migrate TMQ118): tasks: app.tasks.names() has the names, once "
                "app.load() was called\nprint(app.tasks.keys())\n",
                others={"shop/app.py": 'from celery import Celery\n\napp = Celery("shop")\n'},
            ),
            Example(
                "stop.py",
                before="from shop.app import app\n\n\n"
                "def stop(job_id):\n    app.control.revoke(job_id)\n",
                after="from shop.app import app\n\n\n"
                "def stop(job_id):\n"
                "    # TODO(taskmq-migrate TMQ118): control: app.result(id).revoke() takes a job "
                "out, app.pause(queue) stops a queue, and `taskmq status` shows workers and jobs\n"
                "    app.control.revoke(job_id)\n",
                others={"shop/app.py": 'from celery import Celery\n\napp = Celery("shop")\n'},
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for node in file.nodes(cst.Attribute):
            name = node.attr.value
            if name not in WHY_NOT or not file.is_app(node.value):
                continue
            if name == "tasks" and _is_looked_up(file, node):
                continue
            if not _is_celerys(file, node.value):
                yield file.mark_at(node, f"{name}: {WHY_NOT[name]}")


def _is_looked_up(file: PythonFile, tasks: cst.Attribute) -> bool:
    """Whether it is asked for one task by its name, as both have it."""
    around = file.parent(tasks)
    if isinstance(around, cst.ComparisonTarget):
        return isinstance(around.operator, cst.In | cst.NotIn)
    return isinstance(around, cst.Subscript) and around.value is tasks


def _is_celerys(file: PythonFile, node: cst.BaseExpression) -> bool:
    """Whether an app is one that Celery's own modules name."""
    return any(each.startswith("celery.") for each in file.names(node))


RULE = AppAttributes()
