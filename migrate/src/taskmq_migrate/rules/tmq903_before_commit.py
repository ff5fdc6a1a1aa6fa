"""Doctor: a job that may start before its transaction is committed."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Example, Page, Safety, Site
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

ATOMIC = ("django.db.transaction.atomic",)


class BeforeCommit(PythonRule):
    id = "TMQ903"
    title = "a job is submitted inside a transaction of Django's"
    safety = Safety.REPORT_ONLY
    words = ("atomic",)
    doctor = True
    page = Page(
        why="A worker may start the job before the transaction is committed, and not find the "
        "rows; "
        "or run it although the transaction was rolled back. delay_on_commit waits for the commit; "
        "with a store in the same database, submit(…, connection=connection) makes the job a part "
        "of the transaction.",
        risk="None: nothing is changed.",
        examples=(
            Example(
                "views.py",
                before="from django.db import transaction\n\n"
                "from shop.tasks import send\n\n\n"
                "@transaction.atomic\ndef order(request):\n    send.delay(1)\n\n\n"
                "def other(request):\n"
                "    with transaction.atomic():\n        send.delay(2)\n"
                "        transaction.on_commit(lambda: send.delay(3))\n"
                "    send.delay(4)\n",
                others={
                    "shop/tasks.py": "from celery import shared_task\n\n\n"
                    "@shared_task\ndef send(x): ...  # not atomic\n"
                },
                reports=2,
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for call in file.nodes(cst.Call):
            if file.is_submission(call) and self._in_transaction(file, call):
                yield file.report_at(call, "the job may start before the transaction is committed")

    def _in_transaction(self, file: PythonFile, call: cst.Call) -> bool:
        for around in file.ancestors(call):
            if isinstance(around, cst.Lambda):
                return False
            if isinstance(around, cst.With) and any(
                self._is_atomic(file, each.item) for each in around.items
            ):
                return True
            if isinstance(around, cst.FunctionDef):
                return any(self._is_atomic(file, each.decorator) for each in around.decorators)
        return False

    def _is_atomic(self, file: PythonFile, node: cst.BaseExpression) -> bool:
        return file.is_(node.func if isinstance(node, cst.Call) else node, *ATOMIC)


RULE = BeforeCommit()
