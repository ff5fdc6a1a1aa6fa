"""Classes of tasks: which ones a file has, and what they and their bases define."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import Arguments, Parts
from taskmq_migrate.native.retrying import OPTIONS as RETRY_OPTIONS
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile

__all__ = [
    "ENGINE",
    "base_of_all",
    "bases",
    "is_base",
    "is_known_base",
    "members_of",
    "methods",
    "policy_options",
    "task_classes",
]

ENGINE = "taskmq.Task"


def bases(node: cst.ClassDef) -> list[cst.BaseExpression]:
    """The classes that a class names as its bases."""
    return [each.value for each in node.bases if not each.star]


def is_base(file: PythonFile, node: cst.CSTNode) -> bool:
    """Whether an expression is Celery's own ``Task``, or that of an app."""
    if any(file.facts.is_base_of_tasks(each, file.path) for each in file.resolver.raw(node)):
        return True
    return isinstance(node, cst.Attribute) and node.attr.value == "Task" and file.is_app(node.value)


def is_known_base(file: PythonFile, node: cst.CSTNode) -> bool:
    """Whether an expression is a class of tasks, Celery's or the engine's, as far as is seen."""
    return is_base(file, node) or any(
        file.facts.is_task_class(each, file.path)
        or file.facts.derives_from(each, (ENGINE,), file.path)
        for each in file.resolver.raw(node)
    )


def policy_options(file: PythonFile, node: cst.BaseExpression) -> frozenset[str]:
    """What a class of the project, or one that it derives from, says of retries: Celery's options,
    and ``retry`` of the engine's."""
    names = file.resolver.raw(node)
    members = frozenset[str]().union(*(file.facts.members(each, file.path) for each in names))
    return members & (RETRY_OPTIONS | {"retry"})


def task_classes(file: PythonFile) -> Iterator[cst.ClassDef]:
    """The classes of a file that are tasks, or bases of tasks."""
    for node in file.nodes(cst.ClassDef):
        if any(is_known_base(file, each) for each in bases(node)):
            yield node


def base_of_all(file: PythonFile, node: cst.BaseExpression) -> Parts:
    """``task_cls`` of an app, as ``base=`` of the engine's. Raises `Unclear`."""
    if file.facts.has_shared_tasks:
        raise Unclear("task_cls: tasks of @shared_task name it themselves: @task(base=…)")
    bound = file.resolver.assignments(node) if isinstance(node, cst.Name) else []
    local = len(bound) == 1 and any(each is bound[0].node for each in task_classes(file))
    if not local and not is_known_base(file, node):
        raise Unclear("task_cls: App(base=…) takes a class of this project")
    return (file.whole(node),)


def methods(node: cst.ClassDef) -> Iterator[tuple[cst.FunctionDef, cst.Param]]:
    """The methods of a class, each with the parameter that is the instance."""
    for each in node.body.body:
        if not isinstance(each, cst.FunctionDef):
            continue
        names = {
            one.decorator.value for one in each.decorators if isinstance(one.decorator, cst.Name)
        }
        parameters = [*each.params.posonly_params, *each.params.params]
        if parameters and not names & {"staticmethod", "classmethod"}:
            yield each, parameters[0]


def members_of(file: PythonFile, function: cst.FunctionDef) -> frozenset[str]:
    """What a task has by its class: of a method its own class, of a function what ``base=`` of its
    decorator names, each with the classes that it derives from."""
    around = file.enclosing(function, cst.ClassDef)
    if around is not None and file.enclosing(function, cst.FunctionDef) is None:
        return _members(file, around.name) | _assigned(file, around)
    for each in function.decorators:
        call = each.decorator
        base = Arguments.of(call).keywords.get("base") if isinstance(call, cst.Call) else None
        if base is not None:
            return _members(file, base)
    return frozenset()


def _members(file: PythonFile, name: cst.CSTNode) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for each in file.resolver.raw(name):
        found |= file.facts.members(each, file.path)
    return found


def _assigned(file: PythonFile, node: cst.ClassDef) -> frozenset[str]:
    """What a class that facts may not know defines, and what its methods put into the instance."""
    found = {each.name.value for each in node.body.body if isinstance(each, cst.FunctionDef)}
    inside = file.span(node)
    for each in file.nodes(cst.Attribute):
        if (
            isinstance(file.parent(each), cst.AssignTarget | cst.AnnAssign)
            and isinstance(each.value, cst.Name)
            and each.value.value == "self"
            and inside.start <= file.span(each).start < inside.end
        ):
            found.add(each.attr.value)
    return frozenset(found)
