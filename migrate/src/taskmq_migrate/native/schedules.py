"""Celery's schedules as the engine's: ``crontab(…)``, ``schedule(…)``, seconds."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from taskmq_migrate.arguments import Arguments, Part, dict_items, is_literal, number, spread
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
    if number(node) is not None:
        return Rule("every", ("seconds=", file.whole(node)))
    if not isinstance(node, cst.Call):
        raise Unclear("the schedule is not written out here")
    if file.is_(node.func, *CRONTAB):
        return Rule("cron", (_cron_line(node),), (node.func,))
    if file.is_(node.func, "datetime.timedelta"):
        return Rule("every", (f"seconds={_seconds(node)}",), (node.func,))
    if file.is_(node.func, *SCHEDULE):
        given = Arguments.of(node).named("run_every", "relative")
        if given is not None and given.keys() == {"run_every"}:
            inner = rule_of(file, given["run_every"])
            return Rule(inner.function, inner.when, (node.func, *inner.released))
    raise Unclear("the engine has crontabs, intervals and instants only")


def _cron_line(call: cst.Call) -> str:
    given = Arguments.of(call).named(*PARAMETERS)
    if given is None or not given.keys() <= set(PARAMETERS):
        raise Unclear("the crontab has arguments that a cron line does not")
    return '"' + " ".join(_field(given.get(each)) for each in FIELDS) + '"'


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


def _seconds(call: cst.Call) -> str:
    given = Arguments.of(call).named("days", "seconds")
    if given is None or not given or not given.keys() <= TIMEDELTA.keys():
        raise Unclear("the interval is not written out in days, hours, minutes and seconds")
    total = 0.0
    for name, value in given.items():
        amount = number(value)
        if amount is None:
            raise Unclear("the interval is not written out as numbers")
        total += amount * TIMEDELTA[name]
    return str(int(total)) if total.is_integer() else str(total)


def zone_of(file: PythonFile) -> str | None:
    """The time zone that this file gives its app: ``UTC`` where it sets none and none is loaded.

    None where it cannot be seen.
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
    return None if file.facts.configuration else "UTC"


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
