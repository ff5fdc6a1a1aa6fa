"""Celery's schedules as the engine's: ``crontab(…)``, ``schedule(…)``, seconds."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from taskmq_migrate.arguments import Arguments, Part, dict_items, is_literal, number, spread
from taskmq_migrate.configstyle import django_style, is_django_settings
from taskmq_migrate.facts import Facts
from taskmq_migrate.names import literal_text
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile

__all__ = ["Rule", "rule_of", "zone_of"]

CRONTAB = ("celery.schedules.crontab",)
SCHEDULE = ("celery.schedules.schedule",)
FIELDS = ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
# Celery's parameters in their order, which is not that of the fields of a cron line.
PARAMETERS = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
TIMEDELTA = {"days": 86_400, "hours": 3_600, "minutes": 60, "seconds": 1, "weeks": 604_800}


@dataclass(frozen=True)
class Rule:
    """A function of ``taskmq.schedule`` and the argument that says when."""

    function: str
    when: tuple[Part, ...]
    released: tuple[cst.CSTNode, ...] = ()

    @property
    def has_zone(self) -> bool:
        return self.function == "cron"


def rule_of(file: PythonFile, node: cst.BaseExpression) -> Rule:
    """What a value of ``schedule`` in a beat entry means. Raises `Unclear`."""
    if _is_number(file, node):
        return Rule("every", ("seconds=", file.whole(node)))
    if not isinstance(node, cst.Call):
        raise Unclear("the schedule is not written out here")
    if file.is_(node.func, *CRONTAB):
        return Rule("cron", (_cron_line(file, node),), (node.func,))
    if file.is_(node.func, "datetime.timedelta"):
        seconds = _seconds(node)
        if seconds is None:
            return Rule("every", ("seconds=", file.span(node), ".total_seconds()"))
        return Rule("every", (f"seconds={seconds}",), (node.func,))
    if file.is_(node.func, *SCHEDULE):
        given = Arguments.of(node).named("run_every", "relative")
        if given is not None and given.keys() == {"run_every"}:
            inner = rule_of(file, given["run_every"])
            return Rule(inner.function, inner.when, (node.func, *inner.released))
    raise Unclear("the engine has crontabs, intervals and instants only")


def _cron_line(file: PythonFile, call: cst.Call) -> str:
    given = Arguments.of(call).named(*PARAMETERS)
    if given is None or not given.keys() <= set(PARAMETERS):
        raise Unclear("the crontab has arguments that a cron line does not")
    computed = [each for each in FIELDS if _is_computed(given.get(each))]
    fields = [
        "{" + file.code(given[each]) + "}" if each in computed else _field(given.get(each))
        for each in FIELDS
    ]
    return f'{"f" if computed else ""}"{" ".join(fields)}"'


def _is_computed(node: cst.CSTNode | None) -> bool:
    """Whether a field is a number that is computed, by ``//`` or ``%`` of names and numbers."""
    if not isinstance(node, cst.BinaryOperation) or node.lpar:
        return False
    return isinstance(node.operator, cst.FloorDivide | cst.Modulo) and all(
        isinstance(each, cst.Name | cst.Integer) for each in (node.left, node.right)
    )


def _field(node: cst.BaseExpression | None) -> str:
    if node is None:
        return "*"
    value = number(node)
    if value is not None:
        return str(int(value))
    text = literal_text(node)
    if text is not None and text.strip():
        return "".join(text.lower().split())
    if isinstance(node, cst.List | cst.Tuple | cst.Set):
        members = [_field(each.value) for each in node.elements]
        if members and "*" not in members:
            return ",".join(members)
    raise Unclear("a field of the crontab is not written out")


def _seconds(call: cst.Call) -> str | None:
    """The length of a ``timedelta`` that is written out; None for others."""
    given = Arguments.of(call).named("days", "seconds")
    if given is None or not given.keys() <= TIMEDELTA.keys():
        return None
    total = 0.0
    for name, value in given.items():
        amount = number(value)
        if amount is None:
            return None
        total += amount * TIMEDELTA[name]
    return str(int(total)) if total.is_integer() else str(total)


def _is_number(file: PythonFile, node: cst.CSTNode | None) -> bool:
    """Whether an expression is a number for sure: written out, by arithmetic, or a constant."""
    if isinstance(node, cst.BinaryOperation):
        return _is_number(file, node.left) and _is_number(file, node.right)
    if isinstance(node, cst.Name):
        value, _ = file.bound_to(node)
        return value is not None and not isinstance(value, cst.Name) and _is_number(file, value)
    return number(node) is not None


def zone_of(file: PythonFile) -> str | None:
    """The time zone that this file gives its app, or Django's settings do: ``UTC`` where they set
    none. None where it cannot be seen.
    """
    for assign in file.nodes(cst.Assign):
        for each in assign.targets:
            if _is_of_conf(file, each.target, "timezone"):
                return literal_text(assign.value)
    for call in file.nodes(cst.Call):
        if _is_of_conf(file, call.func, "update"):
            value = Arguments.of(call).keywords.get("timezone")
            if value is not None:
                return literal_text(value)
    return _zone_of_django(file.facts) if file.facts.configuration else "UTC"


def _zone_of_django(facts: Facts) -> str | None:
    """The time zone in Django's settings, where all apps read those with the usual namespace.

    Every file that says ``CELERY_`` is among the facts; with another namespace, that is not so.
    """
    style = django_style(facts)
    modules = [each for each in facts.modules.values() if is_django_settings(facts, each)]
    if style is None or style.adds_namespace or style.namespace != "CELERY" or not modules:
        return None
    if any(each.how != "django" for each in facts.configuration):
        return None
    zone, utc = "CELERY_TIMEZONE", "CELERY_ENABLE_UTC"
    for module in modules:
        for names in module.attributes.values():
            if zone in names or utc in names:
                return None
    zones = {each.zones.get(zone) for each in modules if zone in each.names}
    if not zones and all(each.zones.get(utc, "True") == "True" for each in modules):
        return "UTC"
    return zones.pop() if len(zones) == 1 else None


def _is_of_conf(file: PythonFile, node: cst.CSTNode, name: str) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value == name and file.is_conf(node.value)


def options_of(file: PythonFile, node: cst.BaseExpression | None) -> tuple[Part, ...] | None:
    """``options`` of a beat entry, as far as both have them: the queue and how long it is good."""
    items = dict_items(node)
    if items is None or not items.keys() <= {"queue", "expires"}:
        return None
    parts: list[Part] = ["{"]
    for number_, (name, value) in enumerate(items.items()):
        parts += [", " if number_ else "", f'"{name}": ', file.whole(value)]
    return (*parts, "}")


def arguments_of(file: PythonFile, node: cst.BaseExpression | None) -> tuple[Part, ...]:
    """``args`` of a beat entry."""
    if node is None or is_literal(node, "None") or not (spread(file, node) or []):
        return ()
    return (file.whole(node),)
