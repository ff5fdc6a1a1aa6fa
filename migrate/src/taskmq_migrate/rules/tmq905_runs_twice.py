"""Doctor: tasks that were lost with their worker so far, and look as if twice were too often."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import Arguments, is_literal
from taskmq_migrate.model import Example, Page, Safety, Site
from taskmq_migrate.names import dotted
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

SENDS = {
    "django.core.mail.mail_admins": "sends mail",
    "django.core.mail.mail_managers": "sends mail",
    "django.core.mail.send_mail": "sends mail",
    "django.core.mail.send_mass_mail": "sends mail",
    "httpx.post": "posts a request",
    "requests.post": "posts a request",
}
METHODS = {"incr": "counts up", "send_message": "sends a message", "sendmail": "sends mail"}
DECIDED = frozenset({"acks_late", "ack", "dedup"})


class RunsTwice(PythonRule):
    id = "TMQ905"
    title = "a task looks as if it must not run twice"
    safety = Safety.REPORT_ONLY
    words = ("elery", "taskmq")
    doctor = True
    page = Page(
        why="Without acks_late Celery loses a job with its worker; here it runs again, so that "
        "every job runs at least once. What counts, creates rows or sends something would do so "
        "twice then. Make it idempotent (get_or_create, a key at the other side), give the engine "
        "a dedup= key, or keep what was: acks_late=False, written out, is honoured.",
        risk="None: nothing is changed. It is a guess by names: one line for a task.",
        examples=(
            Example(
                "tasks.py",
                before="from celery import shared_task\n"
                "from django.core.mail import send_mail\n"
                "from django.db.models import F\n\n\n"
                "@shared_task\ndef tell(to):\n    send_mail('hi', 'there', None, [to])\n\n\n"
                "@shared_task\ndef count(shop):\n    shop.update(hits=F('hits') + 1)\n\n\n"
                "@shared_task(acks_late=True)\ndef old(to):\n"
                "    send_mail('hi', 'there', None, [to])\n\n\n"
                "@shared_task\ndef fetch(url):\n    return len(url) + 1\n",
                reports=2,
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        reasons: dict[cst.FunctionDef, str] = {}
        for function, why in _evidence(file):
            if file.is_task(function.name) and not _is_decided(function):
                reasons.setdefault(function, why)
        for function, why in reasons.items():
            name = function.name.value
            yield file.report_at(
                function.name, f"{name} {why}: it runs again where its worker is lost"
            )


def _evidence(file: PythonFile) -> Iterator[tuple[cst.FunctionDef, str]]:
    for call in file.nodes(cst.Call):
        function = file.enclosing(call, cst.FunctionDef)
        if function is None:
            continue
        for name, why in SENDS.items():
            if file.is_(call.func, name):
                yield function, why
        if isinstance(call.func, cst.Attribute):
            method, owner = call.func.attr.value, dotted(call.func.value)
            if method in METHODS:
                yield function, METHODS[method]
            elif method in {"create", "bulk_create"} and owner.endswith(".objects"):
                yield function, f"creates rows of {owner.removesuffix('.objects')}"
    for node in file.nodes(cst.BinaryOperation):
        function = file.enclosing(node, cst.FunctionDef)
        if (
            function is not None
            and isinstance(node.left, cst.Call)
            and file.is_(node.left.func, "django.db.models.F")
            and isinstance(node.operator, cst.Add | cst.Subtract)
        ):
            yield function, "counts in the database"


def _is_decided(function: cst.FunctionDef) -> bool:
    """Whether its decorator says what happens to a job whose worker is lost."""
    for each in function.decorators:
        given = (
            Arguments.of(each.decorator).keywords if isinstance(each.decorator, cst.Call) else {}
        )
        if any(name in DECIDED and not is_literal(value, "None") for name, value in given.items()):
            return True
    return False


RULE = RunsTwice()
