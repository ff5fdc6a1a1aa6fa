"""``task.delay_on_commit(…)`` of Celery's Django tasks."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import Part
from taskmq_migrate.model import Example, Page, Site, Span, Target
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
        # All that stands between the parentheses is kept, with its comments.
        kept = _between(file, call)
        gap = "," if file.source(kept).startswith(("\n", "\r")) else ", "
        inside: list[Part] = [gap, kept] if call.args else []
        if len(call.args) == 1 and isinstance(call.args[0].value, cst.GeneratorExp):
            inside = [", (", file.span(call.args[0].value), ")"]
        return file.convert_at(
            call,
            "a callback of the transaction",
            file.replace(
                file.span(call),
                f"{on_commit}({partial}(",
                file.span(method.value),
                ".delay",
                *inside,
                "))",
            ),
            imports=(*imports, *more),
        )


def _between(file: PythonFile, call: cst.Call) -> Span:
    """What stands between the parentheses of a call, whole lines with their indentation."""
    start, end = file.text.index("(", file.span(call.func).end) + 1, file.span(call).end - 1
    text = file.text[start:end]
    start += len(text) - len(text.lstrip(" \t"))
    kept = text.rstrip(" \t")
    return Span(start, end if kept.endswith(("\n", "\r")) else end - len(text) + len(kept))


RULE = OnCommit()
