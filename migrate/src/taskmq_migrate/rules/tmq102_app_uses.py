"""What is asked of an app that the engine's does not have, or calls otherwise."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Example, Page, Site, Target
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

CONNECTION = "the store is what Config(transport=…) names: nothing else is connected to"
RESULTS = "results are in the store: app.result(id)"
COMMAND = "the command line is `taskmq -A module:app`"
RENAMED = {"register_task": "register"}
GONE = {
    "Beat": "any worker runs schedules; `taskmq beat` alone does",
    "GroupResult": "a workflow that was submitted is WorkflowRun",
    "Worker": "taskmq.worker.Worker(app)",
    "WorkController": "taskmq.worker.Worker(app)",
    "amqp": CONNECTION,
    "backend": RESULTS,
    "connection": CONNECTION,
    "connection_for_read": CONNECTION,
    "connection_for_write": CONNECTION,
    "connection_or_acquire": CONNECTION,
    "control": "app.revoke(…), app.pause(…) and `taskmq status`",
    "events": "app.add_sink(…) is told of every event",
    "log": "taskmq configures no logging of its own in programs that do",
    "pool": CONNECTION,
    "producer_or_acquire": CONNECTION,
    "producer_pool": CONNECTION,
    "select_queues": "a worker is told its queues when it is started: --queues",
    "send_task": "app.tasks[name].submit(…), where the task is known",
    "signature": "task.call(…) is a request as a value",
    "start": COMMAND,
    "steps": "WorkerHook has the life of a worker: app.add_hook()",
    "user_options": COMMAND,
    "worker_main": "taskmq.worker.Worker(app).run(), or `taskmq -A module:app worker`",
}


class AppUses(PythonRule):
    id = "TMQ102"
    title = "what only an app of Celery's has is named"
    targets = frozenset({Target.NATIVE})
    words = ("elery", *RENAMED, *GONE)
    page = Page(
        why="An app of the engine has tasks, schedules and a store. Connections, remote control "
        "and a command line of its own it has not; the marker says what there is.",
        risk="None: register_task is register, everything else is marked.",
        examples=(
            Example(
                "app.py",
                before="from celery import Celery, Task\n\n\nclass Sweep(Task): ...\n\n\n"
                'app = Celery("shop")\nsweep = app.register_task(Sweep())\n'
                'app.send_task("mail.send")\n',
                after="from celery import Celery, Task\n\n\nclass Sweep(Task): ...\n\n\n"
                'app = Celery("shop")\nsweep = app.register(Sweep())\n'
                "# TODO(taskmq-migrate TMQ102): send_task: app.tasks[name].submit(…), where the "
                'task is known\napp.send_task("mail.send")\n',
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for node in file.nodes(cst.Attribute):
            name = node.attr.value
            if name in GONE and file.is_app(node.value):
                yield file.mark_at(node, f"{name}: {GONE[name]}")
            elif name in RENAMED and file.is_app(node.value):
                edit = file.swap(node.attr, RENAMED[name])
                yield file.convert_at(node, f"{name} is {RENAMED[name]}", edit)


RULE = AppUses()
