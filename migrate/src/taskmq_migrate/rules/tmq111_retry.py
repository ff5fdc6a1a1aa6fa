"""``self.retry(…)``: the task asks to be run again."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import Arguments, Parts, comma_separated, is_literal
from taskmq_migrate.model import Example, Page, Site, Target
from taskmq_migrate.native.bodies import uses_of_self
from taskmq_migrate.native.lastretry import handled_last
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

WHY_NOT = {
    "args": "a job runs again with the arguments that it has",
    "kwargs": "a job runs again with the arguments that it has",
    "eta": "retry takes delay= in seconds",
    "max_retries": "the ceiling is that of the task: retry=Retry(max_attempts=…)",
    "throw": "what retry gives has to be raised",
}


class SelfRetry(PythonRule):
    id = "TMQ111"
    title = "self.retry(...) raises what the context gives"
    targets = frozenset({Target.NATIVE})
    words = ("elery", "taskmq")
    page = Page(
        why="In the engine a task raises what ctx.retry() gives it: the policy of the task "
        "computes the delay unless the call names one, and its ceiling holds either way. Nothing "
        "is raised in the task when the attempts are used up: what it does then stands behind "
        "request.is_last_attempt.",
        risk="`except Exception` around the call no longer catches what it raises. When the "
        "attempts are used up without an exc=, the dead letter names RetryJob, not "
        "MaxRetriesExceededError.",
        examples=(
            Example(
                "tasks.py",
                before="from celery import shared_task\n\n\n"
                "@shared_task(bind=True)\ndef fetch(self, url):\n"
                "    try:\n        return get(url)\n"
                "    except OSError as exc:\n"
                "        raise self.retry(exc=exc, countdown=60)\n",
                after="from celery import shared_task\n\n\n"
                "@shared_task(bind=True)\ndef fetch(self, url):\n"
                "    try:\n        return get(url)\n"
                "    except OSError as exc:\n"
                "        raise self.request.retry(error=exc, delay=60)\n",
            ),
            Example(
                "sync.py",
                before="from celery import shared_task\n"
                "from celery.exceptions import MaxRetriesExceededError\n\n\n"
                "@shared_task(bind=True)\ndef sync(self, key):\n"
                "    if not lock(key):\n        try:\n            self.retry()\n"
                "        except MaxRetriesExceededError:\n            give_up(key)\n",
                after="from celery import shared_task\n\n\n"
                "@shared_task(bind=True)\ndef sync(self, key):\n"
                "    if not lock(key):\n        if self.request.is_last_attempt:\n"
                "            give_up(key)\n        else:\n            raise self.request.retry()\n",
            ),
            Example(
                "poll.py",
                before="from celery import shared_task\n\n\n"
                "@shared_task(bind=True)\ndef poll(self):\n    self.retry(max_retries=9)\n",
                after="from celery import shared_task\n\n\n"
                "@shared_task(bind=True)\ndef poll(self):\n"
                "    # TODO(taskmq-migrate TMQ111): max_retries: the ceiling is that of the task: "
                "retry=Retry(max_attempts=…)\n"
                "    self.retry(max_retries=9)\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for _, node in uses_of_self(file):
            call = file.parent(node)
            if node.attr.value == "retry" and isinstance(call, cst.Call) and call.func is node:
                yield self._site(file, node, call)

    def _site(self, file: PythonFile, node: cst.Attribute, call: cst.Call) -> Site:
        given = Arguments.of(call).named("args", "kwargs", "exc", "throw", "eta", "countdown")
        if given is None:
            return file.mark_at(call, "arguments of retry are hidden behind * or **")
        options: list[Parts] = []
        for name, value in given.items():
            if is_literal(value, "None") or (name == "throw" and is_literal(value, "True")):
                continue
            if name == "exc":
                options.append(("error=", file.whole(value)))
            elif name == "countdown":
                options.append(("delay=", file.whole(value)))
            else:
                why = WHY_NOT.get(name, "retry takes a reason and delay= alone")
                return file.mark_at(call, f"{name}: {why}")
        parts = (file.span(node.value), ".request.retry(", *comma_separated(options), ")")
        around = file.parent(call)
        where: cst.CSTNode = call
        if isinstance(around, cst.Raise):
            before = ""
        elif isinstance(around, cst.Return | cst.Expr):
            where, before = around, "raise "
        else:
            return file.mark_at(call, "what retry gives has to be raised")
        last = handled_last(file, call)
        if last is None:
            edit = file.replace(file.span(where), before, *parts)
            return file.convert_at(call, "raised from the context", edit)
        if "exc" in given:
            return file.mark_at(call, "exc: a handler for MaxRetriesExceededError never sees it")
        if isinstance(around, cst.Raise):
            where, before = around, "raise "
        try:
            context = (file.span(node.value), ".request")
            edits = last.edits(file, where, context, (before, *parts))
        except Unclear as problem:
            return file.mark_at(call, str(problem))
        return file.convert_at(call, "raised from the context", *edits, released=(last.named,))


RULE = SelfRetry()
