"""Hooks of a task class: Celery hands over five or six things, the engine a context and one."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from taskmq_migrate.model import Edit, NewImport, Span
from taskmq_migrate.names import literal_text
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile

__all__ = ["HOOKS", "HookEdits", "hook_edits", "is_super"]

HOOKS = {
    "before_start": ("task_id", "args", "kwargs"),
    "on_success": ("retval", "task_id", "args", "kwargs"),
    "on_failure": ("exc", "task_id", "args", "kwargs", "einfo"),
    "on_retry": ("exc", "task_id", "args", "kwargs", "einfo"),
    "after_return": ("status", "retval", "task_id", "args", "kwargs", "einfo"),
}
"""What Celery hands over, in its order."""
KEPT = {
    "before_start": None,
    "on_success": "retval",
    "on_failure": "exc",
    "on_retry": "exc",
    "after_return": "status",
}
"""What the engine hands over as well, beside the context."""
STATES = {
    "FAILURE": "FAILED",
    "RETRY": "RETRYING",
    "REVOKED": "REVOKED",
    "SUCCESS": "SUCCEEDED",
}
WHY_NOT = {
    "einfo": "einfo: the exception has its traceback, and what else there is",
    "retval": "retval: after_return is told the state; on_success has the result",
    "status": "status: compare it with the names of taskmq.JobState",
}


@dataclass
class HookEdits:
    """What becomes of a hook."""

    edits: list[Edit] = field(default_factory=list)
    imports: tuple[NewImport, ...] = ()
    guessed: bool = False
    """Whether what it is told may be something else than before."""


@dataclass
class _Uses:
    """Where a hook uses what it is handed, by what that is; calls of super() left out."""

    context: str
    by_role: dict[str, list[cst.Name]]
    supers: list[cst.Call]


def is_super(node: cst.CSTNode) -> bool:
    """Whether an expression is ``super()`` or ``super(…, self)``."""
    return (
        isinstance(node, cst.Call)
        and isinstance(node.func, cst.Name)
        and node.func.value == "super"
    )


def hook_edits(file: PythonFile, function: cst.FunctionDef) -> HookEdits | None:
    """What makes a hook of Celery's one of the engine's; None if it is one. Raises `Unclear`."""
    name = function.name.value
    kept = KEPT[name]
    parameters = function.params
    if parameters.kwonly_params or parameters.posonly_params or not parameters.params:
        raise Unclear(f"{name}: parameters are not those that Celery hands over")
    instance, *given = parameters.params
    rest = [
        each for each in (parameters.star_arg, parameters.star_kwarg) if isinstance(each, cst.Param)
    ]
    if not rest and len(given) == 1 + (kept is not None):
        return None  # the engine's
    if len(given) > len(HOOKS[name]) or (not rest and len(given) < len(HOOKS[name])):
        raise Unclear(f"{name}: parameters are not those that Celery hands over")
    roles = {each.name.value: role for each, role in zip(given, HOOKS[name], strict=False)}
    uses = _uses(file, function, roles, {each.name.value for each in rest})
    if not given:
        return None  # *args and **kwargs, which nothing looks into
    made = HookEdits(guessed=name == "on_retry" and bool(uses.by_role.get("exc")))
    told = next((each for each in given if roles[each.name.value] == kept), None)
    if kept is not None and told is None:
        raise Unclear(f"{name}: parameters are not those that Celery hands over")
    shown: list[str | Span] = [file.span(instance), f", {uses.context}"]
    if told is not None:
        shown += [", ", _with_annotation(file, told)]
    last = [*given, *rest][-1]
    made.edits.append(file.replace(Span(file.span(instance).start, _end(file, last)), *shown))
    handed = uses.context if told is None else f"{uses.context}, {told.name.value}"
    for call in uses.supers:
        made.edits.append(file.replace(file.span(call), file.span(call.func), f"({handed})"))
    for role, names in uses.by_role.items():
        if role == kept and role != "status":
            continue
        if role == "task_id":
            made.edits += [file.replace(file.span(each), f"{uses.context}.id") for each in names]
        elif role == "status":
            made.edits += [_compared(file, each) for each in names]
        elif role == "einfo" and told is not None and kept == "exc":
            for each in names:
                edit, made.imports = _traceback(file, each, told)
                made.edits.append(edit)
        elif role not in ("args", "kwargs"):
            raise Unclear(f"{name}: {WHY_NOT[role]}")
    made.edits += _arguments(file, function, uses, roles)
    return made


def _end(file: PythonFile, parameter: cst.Param) -> int:
    """Where a parameter ends, with annotation and default."""
    if parameter.default is not None:
        return file.whole(parameter.default).end
    return _with_annotation(file, parameter).end


def _with_annotation(file: PythonFile, parameter: cst.Param) -> Span:
    last = parameter.name if parameter.annotation is None else parameter.annotation.annotation
    return Span(file.span(parameter).start, file.span(last).end)


def _uses(
    file: PythonFile, function: cst.FunctionDef, roles: dict[str, str], rest: set[str]
) -> _Uses:
    name, inside = function.name.value, file.span(function.body)
    supers = [
        each
        for each in file.nodes(cst.Call)
        if _within(file, each, inside)
        and isinstance(each.func, cst.Attribute)
        and each.func.attr.value == name
        and is_super(each.func.value)
    ]
    for call in supers:
        _check_passed_on(name, call, roles, rest)
    apart = [Span(file.span(each.func).end, file.span(each).end) for each in supers]
    uses = _Uses("ctx", {}, supers if roles else [])
    taken = set()
    for node in file.nodes(cst.Name):
        if not _within(file, node, inside):
            continue
        parent = file.parent(node)
        if isinstance(parent, cst.Attribute) and parent.attr is node:
            continue
        if isinstance(parent, cst.Arg) and parent.keyword is node:
            continue
        taken.add(node.value)
        if node.value not in roles and node.value not in rest:
            continue
        if any(_within(file, node, each) for each in apart):
            continue
        bound = file.resolver.assignments(node)
        if len(bound) != 1 or not isinstance(bound[0].node, cst.Param):
            raise Unclear(f"{name}: {node.value} is bound anew in it")
        if node.value in rest:
            raise Unclear(f"{name}: the engine hands over a context and what it tells of alone")
        uses.by_role.setdefault(roles[node.value], []).append(node)
    if "ctx" in taken:
        uses.context = "context"
        if "context" in taken:
            raise Unclear(f"{name}: ctx and context mean something else here")
    return uses


def _within(file: PythonFile, node: cst.CSTNode, span: Span) -> bool:
    where = file.span(node)
    return span.start <= where.start and where.end <= span.end


def _check_passed_on(name: str, call: cst.Call, roles: dict[str, str], rest: set[str]) -> None:
    """That super() is given what came, in its order or by name."""
    wanted = list(HOOKS[name])
    for each in call.args:
        value = each.value.value if isinstance(each.value, cst.Name) else ""
        if each.star and value in rest:
            continue
        role = roles.get(value)
        if role is None or (each.keyword is not None and each.keyword.value != role):
            raise Unclear(f"{name}: super() is given something else than what came")
        if each.keyword is None and (not wanted or wanted.pop(0) != role):
            raise Unclear(f"{name}: super() is given something else than what came")


def _compared(file: PythonFile, name: cst.Name) -> Edit:
    """The text that a state is compared with."""
    comparison = file.parent(name)
    if isinstance(comparison, cst.Comparison) and len(comparison.comparisons) == 1:
        target = comparison.comparisons[0]
        text = literal_text(target.comparator)
        if (
            comparison.left is name
            and isinstance(target.operator, cst.Equal | cst.NotEqual)
            and text in STATES
        ):
            return file.replace(file.span(target.comparator), f'"{STATES[text]}"')
    raise Unclear(f"after_return: {WHY_NOT['status']}")


def _traceback(
    file: PythonFile, einfo: cst.Name, told: cst.Param
) -> tuple[Edit, tuple[NewImport, ...]]:
    """The text of the traceback, which ``einfo.traceback`` and ``str(einfo)`` are."""
    around = file.parent(einfo)
    if isinstance(around, cst.Arg):
        around = file.parent(around)
    is_text = isinstance(around, cst.Attribute) and around.attr.value == "traceback"
    is_call = (
        isinstance(around, cst.Call)
        and isinstance(around.func, cst.Name)
        and around.func.value == "str"
        and len(around.args) == 1
    )
    if around is None or not (is_text or is_call):
        raise Unclear(f"{WHY_NOT['einfo']}")
    text, imports = file.import_as("traceback.format_exception", einfo)
    return file.replace(file.span(around), f'"".join({text}({told.name.value}))'), imports


def _arguments(
    file: PythonFile, function: cst.FunctionDef, uses: _Uses, roles: dict[str, str]
) -> list[Edit]:
    """A statement that gets the arguments of the job, if the hook uses them."""
    names = {role: name for name, role in roles.items()}
    wanted = [each for each in ("args", "kwargs") if each in uses.by_role]
    if not wanted:
        return []
    if not isinstance(function.body, cst.IndentedBlock):
        raise Unclear(f"{function.name.value}: the context has the arguments: ctx.arguments")
    if len(wanted) == 2:
        text = f"{names['args']}, {names['kwargs']} = {uses.context}.arguments"
    else:
        at = 0 if wanted[0] == "args" else 1
        text = f"{names[wanted[0]]} = {uses.context}.arguments[{at}]"
    first, *others = function.body.body
    if function.get_docstring() is not None and others:
        first = others[0]
    start = file.span(first).start
    indent = file.text[file.line_start(start) : start]
    return [file.insert(start, f"{text}{file.newline}{indent}")]
