"""Signatures: requests as values, which are calls in the engine, and lists of them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.arguments import Arguments, Parts, comma_separated
from taskmq_migrate.model import Edit
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile

from .options import options_of

__all__ = [
    "as_call",
    "calls_for",
    "is_signature",
    "kept_in",
    "lists_of",
    "plain",
    "references_to",
]

SIMPLE = (cst.Name, cst.SimpleString, cst.Integer, cst.Float)
MUTATES = frozenset({"append", "extend"})


def is_signature(file: PythonFile, node: cst.CSTNode | None) -> bool:
    """Whether an expression is ``task.s(…)`` or ``task.si(…)``, with options set or not."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    if node.func.attr.value == "set":
        return is_signature(file, node.func.value)
    return node.func.attr.value in {"s", "si"} and file.is_task(node.func.value)


def plain(file: PythonFile, node: cst.Call) -> tuple[cst.Call, cst.Attribute, dict[str, Parts]]:
    """A signature without its options, its method, and the options. Raises `Unclear`."""
    options: dict[str, Parts] = {}
    while isinstance(node.func, cst.Attribute) and node.func.attr.value == "set":
        given = Arguments.of(node)
        if given.positional or given.open or not isinstance(node.func.value, cst.Call):
            raise Unclear("options of a signature are hidden behind * or **")
        options = {**options_of(file, given.keywords), **options}
        node = node.func.value
    if not isinstance(node.func, cst.Attribute):
        raise Unclear("a part of the canvas is made elsewhere")
    return node, node.func, options


def as_call(file: PythonFile, node: cst.Call, extra: dict[str, Parts] | None = None) -> Parts:
    """``task.call(…).options(…)`` for a signature. Raises `Unclear`."""
    made, method, options = plain(file, node)
    arguments: list[Parts] = []
    for each in made.args:
        keyword = f"{each.keyword.value}=" if each.keyword is not None else ""
        arguments.append((f"{each.star}{keyword}", file.whole(each.value)))
    call: Parts = (file.whole(method.value), ".call(", *comma_separated(arguments), ")")
    chosen = [(f"{name}=", *value) for name, value in {**options, **(extra or {})}.items()]
    return (*call, ".options(", *comma_separated(chosen), ")") if chosen else call


def references_to(file: PythonFile, name: cst.Name) -> list[cst.Name]:
    """Every use of what a name is bound to where it stands, those that bind it included.

    Empty where it is not a variable of one function or of the module alone.
    """
    bound = file.resolver.assignments(name)
    scope = file.resolver.scope(name)
    if not bound or any(each.scope is not scope or each.node is None for each in bound):
        return []
    found = []
    for other in file.nodes(cst.Name):
        parent = file.parent(other)
        if other.value != name.value or _is_label(parent, other):
            continue
        theirs = file.resolver.assignments(other)
        if theirs and theirs[0].scope is scope:
            found.append(other)
    return found


def _is_label(parent: cst.CSTNode | None, name: cst.Name) -> bool:
    """Whether a name is that of an attribute or of a keyword argument."""
    if isinstance(parent, cst.Attribute):
        return parent.attr is name
    return isinstance(parent, cst.Arg) and parent.keyword is name


def lists_of(file: PythonFile, name: cst.Name) -> list[cst.Call] | None:
    """The signatures that a variable's list is made of, if nothing else is done with it.

    ``name`` is where it is used as the members of a canvas. None where that cannot be seen.
    """
    found: list[cst.Call] = []
    for each in references_to(file, name):
        if each is name or _is_read(file, each):
            continue
        added = _added(file, each)
        if added is None:
            return None
        for member in added:
            if not is_signature(file, member) or not isinstance(member, cst.Call):
                return None
            found.append(member)
    return found or None


def _is_read(file: PythonFile, name: cst.Name) -> bool:
    """Whether it is only asked for its length."""
    parent = file.parent(name)
    if isinstance(parent, cst.If | cst.IfExp | cst.UnaryOperation):
        return True
    call = file.parent(parent) if isinstance(parent, cst.Arg) else None
    return isinstance(call, cst.Call) and file.is_(call.func, "builtins.len", "builtins.bool")


def _added(file: PythonFile, name: cst.Name) -> list[cst.BaseExpression] | None:
    """What one reference puts into the list."""
    parent = file.parent(name)
    if isinstance(parent, cst.AssignTarget):
        assign = file.parent(parent)
        return _members(assign.value) if isinstance(assign, cst.Assign) else None
    if isinstance(parent, cst.AnnAssign) and parent.target is name:
        return _members(parent.value)
    if isinstance(parent, cst.AugAssign) and isinstance(parent.operator, cst.AddAssign):
        return _members(parent.value) if parent.target is name else None
    call = file.parent(parent) if isinstance(parent, cst.Attribute) else None
    if (
        isinstance(call, cst.Call)
        and isinstance(parent, cst.Attribute)
        and call.func is parent
        and parent.attr.value in MUTATES
        and len(call.args) == 1
        and isinstance(file.parent(call), cst.Expr)
    ):
        value = call.args[0].value
        return [value] if parent.attr.value == "append" else _members(value)
    return None


def _members(node: cst.BaseExpression | None) -> list[cst.BaseExpression] | None:
    if isinstance(node, cst.List | cst.Tuple):
        return [each.value for each in node.elements]
    if isinstance(node, cst.ListComp | cst.GeneratorExp):
        return [node.elt]
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and not node.args:
        return [] if node.func.value == "list" else None
    return None


def calls_for(file: PythonFile, members: list[cst.Call]) -> Iterator[Edit]:
    """Edits that make calls of signatures where they are written. Raises `Unclear`."""
    for each in members:
        yield file.replace(file.whole(each), *as_call(file, each))


def kept_in(file: PythonFile, name: cst.Name) -> tuple[cst.Call, cst.SimpleStatementLine] | None:
    """The signature that a variable holds from its one assignment to this one use, and the line.

    None unless the signature could as well stand where the variable does: in the same block, with
    arguments that are names or literals which nothing binds in between.
    """
    references = references_to(file, name)
    value, _ = file.bound_to(name)
    if len(references) != 2 or not is_signature(file, value) or not isinstance(value, cst.Call):
        return None
    line = file.statement(value)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return None
    if file.parent(line) is not file.parent(file.statement(name)):
        return None
    made, _, options = plain(file, value)
    simple = all(isinstance(each.value, SIMPLE) for each in made.args)
    if options or not simple or line.trailing_whitespace.comment is not None:
        return None
    start, end = file.span(line).end, file.span(name).start
    wanted = {each.value.value for each in made.args if isinstance(each.value, cst.Name)}
    for other in file.nodes(cst.Name):
        if other.value in wanted and start <= file.span(other).start < end and _binds(file, other):
            return None
    return value, line


def _binds(file: PythonFile, name: cst.Name) -> bool:
    parent = file.parent(name)
    if isinstance(parent, cst.AugAssign | cst.AnnAssign | cst.For | cst.NamedExpr):
        return parent.target is name
    return isinstance(parent, cst.AssignTarget | cst.Element | cst.AsName)
