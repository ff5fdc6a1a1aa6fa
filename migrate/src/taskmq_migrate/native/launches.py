"""Where a canvas is submitted: at once, later by the variable that holds it, or by ``replace``."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from taskmq_migrate.arguments import Arguments, Parts
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile

from .bodies import uses_of_self
from .canvas import CHORD, is_canvas
from .options import options_of
from .signatures import is_signature, references_to

__all__ = ["Launch", "launch_of", "statement_of"]

METHODS = frozenset({"delay", "apply_async"})
NOT_HERE = "a canvas that is not submitted where it is made: build a taskmq.workflow.Workflow"
LARGER = "a canvas within a larger expression: build a taskmq.workflow.Workflow"


@dataclass
class Launch:
    """How a canvas is submitted. ``calls`` are the expressions that do it."""

    calls: list[cst.Call]
    body: cst.BaseExpression | None = None
    """What follows a chord, if the call that submits it says so."""
    options: dict[str, Parts] = field(default_factory=dict)
    variable: cst.Name | None = None
    """What holds it until then."""
    replaces: cst.BaseExpression | None = None
    """The task that it is to replace, if it is."""


def launch_of(file: PythonFile, canvas: cst.BaseExpression) -> Launch:
    """Raises `Unclear` for a canvas whose end cannot be seen here."""
    at_once = _at_once(file, canvas)
    if at_once is not None:
        return at_once
    parent = file.parent(canvas)
    if isinstance(parent, cst.Arg):
        replacing = file.parent(parent)
        if isinstance(replacing, cst.Call) and len(replacing.args) == 1:
            for _, node in uses_of_self(file):
                if node is replacing.func and node.attr.value == "replace":
                    return Launch([replacing], replaces=node.value)
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        target = parent.targets[0].target
        if isinstance(target, cst.Name):
            return _later(file, target)
    raise Unclear(NOT_HERE)


def _at_once(file: PythonFile, canvas: cst.BaseExpression) -> Launch | None:
    """``canvas()``, ``canvas.delay()``, ``canvas.apply_async(…)``, ``chord(…)(body)``."""
    parent = file.parent(canvas)
    if isinstance(parent, cst.Call) and parent.func is canvas and is_canvas(file, canvas):
        arguments = Arguments.of(parent)
        chord = isinstance(canvas, cst.Call) and file.is_(canvas.func, *CHORD)
        if chord and len(arguments.positional) == 1 and not arguments.keywords:
            return Launch([parent], arguments.positional[0])
        return Launch([parent]) if not parent.args else None
    if isinstance(parent, cst.Attribute) and parent.value is canvas:
        call = file.parent(parent)
        if isinstance(call, cst.Call) and call.func is parent and parent.attr.value in METHODS:
            return Launch([call], options=_options(file, call, parent.attr.value))
    return None


def _options(file: PythonFile, call: cst.Call, method: str) -> dict[str, Parts]:
    arguments = Arguments.of(call)
    if not call.args:
        return {}
    if method == "delay" or arguments.positional or arguments.open:
        raise Unclear("arguments that are added to a canvas: give them to its nodes")
    if arguments.keywords.keys() & {"args", "kwargs", "link", "link_error", "task_id"}:
        raise Unclear("arguments that are added to a canvas: give them to its nodes")
    return options_of(file, arguments.keywords)


def _later(file: PythonFile, target: cst.Name) -> Launch:
    references = references_to(file, target)
    if sum(isinstance(file.parent(each), cst.AssignTarget) for each in references) != 1:
        raise Unclear(NOT_HERE)
    calls: list[cst.Call] = []
    options: dict[str, Parts] = {}
    for each in references:
        if each is target:
            continue
        launch = _by_name(file, each)
        if launch is None:
            raise Unclear(NOT_HERE)
        calls += launch.calls
        options = launch.options
    if not calls or (options and len(calls) > 1):
        raise Unclear(NOT_HERE)
    return Launch(calls, options=options, variable=target)


def _by_name(file: PythonFile, name: cst.Name) -> Launch | None:
    parent = file.parent(name)
    if isinstance(parent, cst.Call) and parent.func is name and not parent.args:
        return None if _holds_signature(file, name) else Launch([parent])
    if isinstance(parent, cst.Attribute) and parent.value is name:
        call = file.parent(parent)
        if isinstance(call, cst.Call) and call.func is parent and parent.attr.value in METHODS:
            return Launch([call], options=_options(file, call, parent.attr.value))
    return None


def _holds_signature(file: PythonFile, name: cst.Name) -> bool:
    """Whether calling it would run a task here and now."""
    value, _ = file.bound_to(name)
    return is_signature(file, value)


def statement_of(file: PythonFile, call: cst.Call) -> cst.BaseSmallStatement:
    """The statement that begins with evaluating the call. Raises `Unclear`."""
    statement = next(
        (each for each in file.ancestors(call) if isinstance(each, cst.BaseSmallStatement)), None
    )
    line = file.parent(statement) if statement is not None else None
    value = _value(statement)
    if (
        statement is None
        or value is None
        or not isinstance(line, cst.SimpleStatementLine)
        or len(line.body) > 1
    ):
        raise Unclear(LARGER)
    if _first(value, call) is not call:
        raise Unclear(LARGER)
    return statement


def _value(statement: cst.BaseSmallStatement | None) -> cst.BaseExpression | None:
    """What such a statement evaluates first of all."""
    if isinstance(statement, cst.Raise):
        return statement.exc
    if isinstance(statement, cst.Assert):
        return statement.test
    if isinstance(statement, cst.AnnAssign | cst.Assign | cst.Expr | cst.Return):
        return statement.value
    return None


def _first(node: cst.BaseExpression | None, wanted: cst.Call) -> cst.BaseExpression | None:
    """What of an expression is evaluated first, as in ``wanted(…).get(…).attribute == 3``: names
    and literals aside, which do nothing."""
    while node is not wanted:
        if isinstance(node, cst.Attribute | cst.Subscript):
            node = node.value
        elif isinstance(node, cst.Call):
            node = node.args[0].value if node.args and _is_still(node.func) else node.func
        elif isinstance(node, cst.Comparison):
            node = node.comparisons[0].comparator if _is_still(node.left) else node.left
        elif isinstance(node, cst.UnaryOperation):
            node = node.expression
        else:
            break
    return node


def _is_still(node: cst.BaseExpression) -> bool:
    """Whether evaluating an expression does nothing."""
    if isinstance(node, cst.List | cst.Tuple | cst.Set):
        return all(_is_still(each.value) for each in node.elements)
    return isinstance(node, cst.Name | cst.SimpleString | cst.Integer | cst.Float)
