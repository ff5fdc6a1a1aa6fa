"""Inside of tasks: what ``self`` is, and what is asked of it."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import Arguments, is_literal
from taskmq_migrate.pythonfile import PythonFile

from .taskclasses import methods, task_classes

__all__ = ["bound_parameter", "is_task_function", "tasks_that_ask_for_retry", "uses_of_self"]


def bound_parameter(file: PythonFile, function: cst.FunctionDef) -> cst.Param | None:
    """The first parameter of a function that is a task with ``bind=True``."""
    for each in function.decorators:
        call = each.decorator
        if not isinstance(call, cst.Call):
            continue
        if is_literal(Arguments.of(call).keywords.get("bind"), "True") and (
            file.is_task_decorator(call.func) or _is_native(file, function, call.func)
        ):
            parameters = [*function.params.posonly_params, *function.params.params]
            return parameters[0] if parameters else None
    return None


def is_task_function(file: PythonFile, function: cst.FunctionDef) -> bool:
    """Whether a function is a task, of Celery's or the engine's."""
    decorators = [each.decorator for each in function.decorators]
    makers = [each.func if isinstance(each, cst.Call) else each for each in decorators]
    return any(file.is_task_decorator(each) or _is_native(file, function, each) for each in makers)


def _is_native(file: PythonFile, function: cst.FunctionDef, decorator: cst.CSTNode) -> bool:
    """Whether a function was a task of Celery's before its decorator was converted."""
    return file.is_(decorator, "taskmq.task") and file.is_task(function.name)


def uses_of_self(file: PythonFile) -> Iterator[tuple[cst.FunctionDef, cst.Attribute]]:
    """Every attribute that bound tasks, and methods of task classes, ask of themselves, such as
    ``self.retry``."""
    bound = {
        id(parameter): function
        for function in file.nodes(cst.FunctionDef)
        if (parameter := bound_parameter(file, function)) is not None
    }
    for each in task_classes(file):
        bound |= {id(parameter): function for function, parameter in methods(each)}
    if not bound:
        return
    for node in file.nodes(cst.Attribute):
        if not isinstance(node.value, cst.Name):
            continue
        for assignment in file.resolver.assignments(node.value):
            function = bound.get(id(getattr(assignment, "node", None)))
            if function is not None:
                yield function, node


def tasks_that_ask_for_retry(file: PythonFile) -> set[cst.FunctionDef]:
    """The bound tasks that call ``self.retry``, or what that was converted to."""
    return {
        owner
        for owner, node in uses_of_self(file)
        if node.attr.value == "retry"
        or (node.attr.value == "request" and _is_retry(file.parent(node)))
    }


def _is_retry(node: cst.CSTNode | None) -> bool:
    return isinstance(node, cst.Attribute) and node.attr.value == "retry"
