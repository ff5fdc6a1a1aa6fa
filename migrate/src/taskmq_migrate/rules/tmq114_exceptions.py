"""Exceptions that tasks raise and catch."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import Arguments, Parts, is_literal
from taskmq_migrate.model import Example, Page, Site, Target
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["MOVED", "RULE"]

MOVED = {
    "celery.exceptions.SoftTimeLimitExceeded": "taskmq.errors.SoftTimeLimit",
    "billiard.exceptions.SoftTimeLimitExceeded": "taskmq.errors.SoftTimeLimit",
    "celery.exceptions.TimeLimitExceeded": "taskmq.errors.HardTimeLimit",
    "celery.exceptions.TimeoutError": "taskmq.errors.ResultTimeout",
    "celery.exceptions.TaskRevokedError": "taskmq.errors.JobRevoked",
    "celery.exceptions.WorkerLostError": "taskmq.errors.WorkerLost",
    "celery.exceptions.ImproperlyConfigured": "taskmq.errors.ConfigError",
}
REJECT = ("celery.exceptions.Reject",)


class Exceptions(PythonRule):
    id = "TMQ114"
    title = "exceptions of celery.exceptions become those of taskmq.errors"
    targets = frozenset({Target.NATIVE})
    words = ("celery.exceptions", "billiard.exceptions")
    page = Page(
        why="The engine has exceptions of its own, with the same meaning. Reject makes a dead "
        "letter: RejectJob.",
        risk="SoftTimeLimit is raised in the processes and asyncio pools; in a thread nothing "
        "interrupts a task, which looks at ctx.remaining().",
        examples=(
            Example(
                "tasks.py",
                before="from celery.exceptions import Reject, SoftTimeLimitExceeded\n\n\n"
                "def work():\n    try:\n        step()\n"
                '    except SoftTimeLimitExceeded:\n        raise Reject("slow", requeue=False)\n',
                after="from taskmq.errors import RejectJob, SoftTimeLimit\n\n\n"
                "def work():\n    try:\n        step()\n"
                '    except SoftTimeLimit:\n        raise RejectJob("slow")\n',
            ),
            Example(
                "again.py",
                before="from celery.exceptions import Reject\n\n\n"
                "def work():\n    raise Reject(requeue=True)\n",
                after="from celery.exceptions import Reject\n\n\n"
                "def work():\n"
                "    # TODO(taskmq-migrate TMQ114): requeue: raise ReleaseJob(delay=…) gives the "
                "job back\n"
                "    raise Reject(requeue=True)\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for node in file.references():
            parent = file.parent(node)
            if isinstance(parent, cst.Call) and parent.func is node and file.is_(node, *REJECT):
                yield self._reject(file, node, parent)
                continue
            names = [each for each in MOVED if file.is_(node, each)]
            if names:
                text, imports = file.import_as(MOVED[names[0]], node)
                yield file.convert_at(
                    node,
                    f"{names[0]} is {MOVED[names[0]]}",
                    file.replace(file.span(node), text),
                    imports=imports,
                    released=(node,),
                )

    def _reject(self, file: PythonFile, node: cst.BaseExpression, call: cst.Call) -> Site:
        given = Arguments.of(call).named("reason", "requeue")
        if given is None:
            return file.mark_at(call, "arguments of Reject are hidden behind * or **")
        if "requeue" in given and not is_literal(given["requeue"], "False"):
            return file.mark_at(call, "requeue: raise ReleaseJob(delay=…) gives the job back")
        text, imports = file.import_as("taskmq.errors.RejectJob", node)
        reason = given.get("reason")
        shown: Parts = ()
        if reason is not None and not is_literal(reason, "None"):
            written = isinstance(reason, cst.SimpleString | cst.FormattedString)
            shown = (file.whole(reason),) if written else ("str(", file.whole(reason), ")")
        return file.convert_at(
            call,
            "a dead letter",
            file.replace(file.span(call), f"{text}(", *shown, ")"),
            imports=imports,
            released=(node,),
        )


RULE = Exceptions()
