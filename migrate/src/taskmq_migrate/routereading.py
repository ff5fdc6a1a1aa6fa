"""Reads routes: which queue the jobs of a task go to by ``task_routes``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from .arguments import Arguments, dict_items
from .names import literal_text
from .pythonfile import PythonFile

__all__ = ["routes_of", "task_name_of"]

ROUTES = frozenset({"CELERY_ROUTES", "CELERY_TASK_ROUTES", "task_routes"})


def routes_of(file: PythonFile) -> Iterator[tuple[str, str] | None]:
    """Names or patterns of tasks, each with its queue; None for routes that say something else, or
    cannot be read."""
    for value in _values(file):
        routes = dict_items(value)
        if routes is None:
            yield None
            continue
        for name, options in routes.items():
            given = dict_items(options)
            queue = literal_text(given.get("queue")) if given and len(given) == 1 else None
            yield None if queue is None else (name, queue)


def _values(file: PythonFile) -> Iterator[cst.BaseExpression]:
    for assign in file.nodes(cst.Assign):
        for target in assign.targets:
            if _name(target.target) in ROUTES:
                yield assign.value
    for argument in file.nodes(cst.Arg):
        if argument.keyword is not None and argument.keyword.value in ROUTES:
            yield argument.value
    for element in file.nodes(cst.DictElement):
        if literal_text(element.key) in ROUTES:
            yield element.value


def _name(target: cst.BaseExpression) -> str:
    if isinstance(target, cst.Name):
        return target.value
    if isinstance(target, cst.Attribute):
        return target.attr.value
    if isinstance(target, cst.Subscript) and len(target.slice) == 1:
        index = target.slice[0].slice
        return (literal_text(index.value) or "") if isinstance(index, cst.Index) else ""
    return ""


def task_name_of(function: cst.FunctionDef) -> str | None:
    """The name that a decorator gives to a task; empty if none does, None if it cannot be read."""
    for each in function.decorators:
        if isinstance(each.decorator, cst.Call):
            given = Arguments.of(each.decorator).keywords.get("name")
            if given is not None:
                return literal_text(given)
    return ""
