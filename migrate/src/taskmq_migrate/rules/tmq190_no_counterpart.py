"""What the engine has otherwise, or not at all: named, with where to look."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Example, Page, Safety, Site, Target
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

# Modules and names of Celery's that other rules convert or mark where they are used.
ELSEWHERE = (
    "celery.Celery",
    "celery.Task",
    "celery.app.Celery",
    "celery.app.base.Celery",
    "celery.canvas.",
    "celery.chain",
    "celery.chord",
    "celery.current_task",
    "celery.exceptions.",
    "celery.group",
    "celery.result.AsyncResult",
    "celery.schedules.",
    "celery.shared_task",
    "celery.states",
    "celery.states.",
    "celery.task",
    "celery.utils.gen_unique_id",
    "celery.utils.log.get_task_logger",
    "celery.utils.uuid",
    "celery.uuid",
)
# Exceptions that TMQ114 has nothing to put in the place of.
LEFT = frozenset(
    {
        "celery.exceptions.Ignore",
        "celery.exceptions.MaxRetriesExceededError",
        "celery.exceptions.Retry",
    }
)
HINTS = (
    ("celery.exceptions.Ignore", "return from the task, or raise RejectJob for a dead letter"),
    ("celery.exceptions.Retry", "raise what current_task().retry(…) gives"),
    (
        "celery.exceptions.MaxRetriesExceededError",
        "a job whose attempts are used up is a dead letter; on_failure of a class task is told",
    ),
    (
        "celery.signals.worker_process_",
        "WorkerHook.on_child_start and on_child_stop, app.add_hook()",
    ),
    ("celery.signals.worker_", "WorkerHook has the life of a worker: app.add_hook()"),
    ("celery.signals.beat_", "a scheduler has no signals: any worker may be it"),
    (
        "celery.signals.task_",
        "events tell of every step (app.add_sink), and class tasks have hooks",
    ),
    (
        "celery.signals.after_setup_",
        "taskmq configures no logging of its own in programs that do; see plugins and hooks",
    ),
    (
        "celery.signals",
        "WorkerHook (app.add_hook) has the life of a worker, hooks of class tasks that of a job",
    ),
    ("celery.current_app", "import the app, or taskmq.current_app() inside a task"),
    ("celery.canvas.", "taskmq.workflow.Workflow"),
    ("celery.chunks", "taskmq.workflow.Workflow.map"),
    ("celery.xmap", "taskmq.workflow.Workflow.map"),
    ("celery.xstarmap", "taskmq.workflow.Workflow.map"),
    ("celery.signature", "task.call(…) is a request as a value"),
    ("celery.subtask", "task.call(…) is a request as a value"),
    ("celery.contrib.abortable", "result.revoke() and current_task().check_cancelled()"),
    ("celery.contrib.pytest", "taskmq.testing has a worker, a clock and fixtures for tests"),
    ("celery.contrib.testing", "taskmq.testing has a worker, a clock and fixtures for tests"),
    ("celery.app.control", "app.pause, app.revoke and `taskmq status`"),
    ("celery.events", "app.add_sink(…) is told of every event"),
    ("celery.bootsteps", "WorkerHook has the life of a worker: app.add_hook()"),
    ("celery.worker", "taskmq.worker.Worker and WorkerHook"),
    ("celery.beat", "schedules are app.schedule(…), and any worker runs them"),
    ("celery.backends", "results are in the store"),
    ("celery.utils", "a helper of Celery's own: use the standard library"),
)


class NoCounterpart(PythonRule):
    id = "TMQ190"
    title = "names of Celery's that the engine does not have"
    safety = Safety.REPORT_ONLY
    targets = frozenset({Target.NATIVE})
    words = ("celery",)
    page = Page(
        why="Everything that no other rule converts gets a marker where it is imported, with what "
        "the engine has in its place.",
        risk="None: nothing is changed but for the marker.",
        examples=(
            Example(
                "hooks.py",
                before="from celery.signals import task_success\n\n\n"
                "@task_success.connect\ndef count(sender, **_): ...\n",
                after="# TODO(taskmq-migrate TMQ190): celery.signals.task_success: "
                "events tell of every step (app.add_sink), and class tasks have hooks\n"
                "from celery.signals import task_success\n\n\n"
                "@task_success.connect\ndef count(sender, **_): ...\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for statement in file.nodes(cst.ImportFrom):
            module = file.resolver.imported_module(statement)
            if module.partition(".")[0] != "celery":
                continue
            if isinstance(statement.names, cst.ImportStar):
                yield file.mark_at(statement, f"{module}: imports that name nothing")
                continue
            names = [f"{module}.{each.evaluated_name}" for each in statement.names]
            left = [each for each in names if not _is_elsewhere(each)]
            if left:
                yield file.mark_at(statement, _message(left))
        for imported in file.nodes(cst.Import):
            left = [
                each.evaluated_name
                for each in imported.names
                if each.evaluated_name.startswith("celery.")
                and not _is_elsewhere(f"{each.evaluated_name}.")
            ]
            if left:
                yield file.mark_at(imported, _message(left))


def _is_elsewhere(name: str) -> bool:
    if name in LEFT:
        return False
    return any(name.startswith(each) if each.endswith(".") else name == each for each in ELSEWHERE)


def _message(names: list[str]) -> str:
    shown = ", ".join(names)
    for prefix, hint in HINTS:
        if names[0].startswith(prefix):
            return f"{shown}: {hint}"
    return f"{shown}: the engine has nothing like it"


RULE = NoCounterpart()
