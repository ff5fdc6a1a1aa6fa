"""Doctor: arguments that are something else when they arrive."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import Arguments, dict_items
from taskmq_migrate.model import Example, Page, Safety, Site
from taskmq_migrate.names import dotted
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

SUBMITS = frozenset({"call", "delay", "delay_on_commit", "s", "si", "submit"})
WITH_OPTIONS = frozenset({"apply", "apply_async", "signature", "subtask"})
ONE = frozenset(
    {"create", "earliest", "first", "get", "get_or_create", "last", "latest", "update_or_create"}
)
SEVERAL = frozenset({"all", "exclude", "filter", "iterator", "values", "values_list"})
SHORTCUTS = (
    "django.shortcuts.get_object_or_404",
    "django.shortcuts.aget_object_or_404",
)
ENUMS = frozenset(
    {
        "enum.Enum",
        "enum.Flag",
        "django.db.models.Choices",
    }
)
MODEL = "django.db.models.Model"
SET = "a set: JSON has none; pass a list"
TUPLE = "a tuple arrives as a list"
TIMEDELTA = "a timedelta: JSON has none; pass seconds"
ENUM = "a member of an enumeration: pass its value"
INSTANCE = "a model instance: pass its key, and read it in the task"
QUERY = "a query: pass keys, and ask for the rows in the task"


class JsonArguments(PythonRule):
    id = "TMQ904"
    title = "arguments of a job are something else when they arrive"
    safety = Safety.REPORT_ONLY
    words = ("elery", "taskmq")
    doctor = True
    page = Page(
        why="Arguments travel as JSON. A tuple arrives as a list, an enumeration as its value; a "
        "set, a timedelta or an instance of a model are refused when the job is submitted, or were "
        "a pickle until now. A row that travels is old when it arrives: its key is not. In the "
        "engine annotations of the task's parameters bring types back, and register_codec takes "
        "types of your own.",
        risk="None: nothing is changed. What a variable holds is seen where one assignment "
        "binds it.",
        examples=(
            Example(
                "views.py",
                before="from datetime import timedelta\n\nfrom shop.tasks import send\n\n\n"
                "def order(request, Order):\n"
                "    order = Order.objects.get(pk=1)\n"
                "    send.delay(order, order.pk)\n"
                "    send.apply_async(args=(request.user, {1, 2}), expires=timedelta(hours=1))\n"
                "    send.s(every=timedelta(hours=1), at=(1, 2))\n",
                others={
                    "shop/tasks.py": "from celery import shared_task\n\n\n"
                    "@shared_task\ndef send(*args, **kwargs): ...\n"
                },
                reports=5,
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for call in file.nodes(cst.Call):
            method = call.func
            if not isinstance(method, cst.Attribute) or not file.is_task(method.value):
                continue
            for value in _sent(method.attr.value, Arguments.of(call)):
                why = self._why(file, value)
                if why:
                    yield file.report_at(value, why)

    def _why(self, file: PythonFile, value: cst.BaseExpression) -> str:
        if isinstance(value, cst.Set | cst.SetComp):
            return SET
        if isinstance(value, cst.Tuple):
            return TUPLE
        if dotted(value).endswith("request.user"):
            return INSTANCE
        if isinstance(value, cst.Attribute) and _is_class(file, value.value, ENUMS):
            return ENUM
        if isinstance(value, cst.Name):
            bound, annotation = file.bound_to(value)
            if annotation is not None and _is_class(file, annotation, {MODEL}):
                return INSTANCE
            return self._made(file, bound) if isinstance(bound, cst.Call) else ""
        return self._made(file, value) if isinstance(value, cst.Call) else ""

    def _made(self, file: PythonFile, call: cst.Call) -> str:
        """What a call gives, if that is nothing for JSON."""
        func = call.func
        if file.is_(func, "builtins.set", "builtins.frozenset"):
            return SET
        if file.is_(func, "datetime.timedelta", "django.utils.timezone.timedelta"):
            return TIMEDELTA
        if file.is_(func, *SHORTCUTS) or _is_class(file, func, {MODEL}):
            return INSTANCE
        if isinstance(func, cst.Attribute) and "objects" in dotted(_innermost(func)).split("."):
            if func.attr.value in ONE:
                return INSTANCE
            return QUERY if func.attr.value in SEVERAL else ""
        return ""


def _sent(method: str, given: Arguments) -> Iterator[cst.BaseExpression]:
    """The values that become arguments of the job."""
    if method in SUBMITS:
        yield from given.positional
        if method != "submit":
            yield from given.keywords.values()
    elif method in WITH_OPTIONS:
        named = dict(zip(("args", "kwargs"), given.positional, strict=False)) | given.keywords
        args = named.get("args")
        if isinstance(args, cst.List | cst.Tuple):
            yield from (each.value for each in args.elements)
        yield from (dict_items(named.get("kwargs")) or {}).values()


def _innermost(node: cst.BaseExpression) -> cst.BaseExpression:
    """What the first call of a chain of calls is asked of: ``Order.objects.filter``."""
    current: cst.BaseExpression = node
    while True:
        inner = current.value if isinstance(current, cst.Attribute) else current
        if isinstance(inner, cst.Call):
            current = inner.func
        elif isinstance(current, cst.Attribute):
            return current
        else:
            return inner


def _is_class(file: PythonFile, node: cst.CSTNode, wanted: frozenset[str] | set[str]) -> bool:
    """Whether an expression is a class that derives from one of these, as far as can be seen."""
    return any(file.facts.derives_from(each, wanted, file.path) for each in file.resolver.raw(node))


RULE = JsonArguments()
