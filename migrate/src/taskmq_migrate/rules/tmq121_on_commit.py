"""``task.delay_on_commit(…)`` of Celery's Django tasks."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import Parts, comma_separated
from taskmq_migrate.model import Example, Page, Site, Target
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]


class OnCommit(PythonRule):
    id = "TMQ121"
    title = "delay_on_commit(...) becomes a callback of the transaction"
    targets = frozenset({Target.NATIVE})
    words = ("elery", "taskmq")
    page = Page(
        why="It is transaction.on_commit in Celery too. With a store in the same database, "
        "task.submit(…, connection=connection) is better: then the job is part of the transaction.",
        risk="None: the arguments are evaluated at the same moment.",
        examples=(
            Example(
                "views.py",
                before="from shop.tasks import send\n\n\n"
                "def order(request):\n    send.delay_on_commit(request.user.pk, copy=True)\n",
                after="from shop.tasks import send\nfrom django.db.transaction import on_commit\n"
                "from functools import partial\n\n\n"
                "def order(request):\n"
                "    on_commit(partial(send.delay, request.user.pk, copy=True))\n",
                others={
                    "shop/tasks.py": "from celery import shared_task\n\n\n"
                    "@shared_task\ndef send(to, copy=False): ...\n"
                },
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for call in file.nodes(cst.Call):
            method = call.func
            if not isinstance(method, cst.Attribute) or not file.is_task(method.value):
                continue
            if method.attr.value == "apply_async_on_commit":
                yield file.mark_at(call, "write transaction.on_commit with a partial of submit")
            elif method.attr.value == "delay_on_commit":
                yield self._site(file, call, method)

    def _site(self, file: PythonFile, call: cst.Call, method: cst.Attribute) -> Site:
        on_commit, imports = file.import_as("django.db.transaction.on_commit", call)
        partial, more = file.import_as("functools.partial", call)
        arguments: list[Parts] = [(file.span(method.value), ".delay")]
        for each in call.args:
            keyword = f"{each.keyword.value}=" if each.keyword is not None else ""
            arguments.append((f"{each.star}{keyword}", file.whole(each.value)))
        return file.convert_at(
            call,
            "a callback of the transaction",
            file.replace(
                file.span(call), f"{on_commit}({partial}(", *comma_separated(arguments), "))"
            ),
            imports=(*imports, *more),
        )


RULE = OnCommit()
