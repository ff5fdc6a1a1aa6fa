"""A canvas that is written out in one expression, as calls of a ``Workflow``."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from taskmq_migrate.arguments import Arguments, Parts, comma_separated
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile

from .options import options_of

__all__ = ["Compiler", "is_canvas", "is_signature", "launched"]

CHAIN = ("celery.chain", "celery.canvas.chain")
GROUP = ("celery.group", "celery.canvas.group")
CHORD = ("celery.chord", "celery.canvas.chord")
NESTED = "a group in a group: build a taskmq.workflow.Workflow of workflows"
LAUNCHES = frozenset({"delay", "apply_async"})
Comprehension = cst.GeneratorExp | cst.ListComp


def is_signature(file: PythonFile, node: cst.CSTNode | None) -> bool:
    """Whether an expression is ``task.s(…)`` or ``task.si(…)``, with options set or not."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute):
        return False
    if node.func.attr.value == "set":
        return is_signature(file, node.func.value)
    return node.func.attr.value in {"s", "si"} and file.is_task(node.func.value)


def is_canvas(file: PythonFile, node: cst.CSTNode | None) -> bool:
    """Whether an expression is a chain, a group or a chord."""
    if isinstance(node, cst.Call):
        return file.is_(node.func, *CHAIN, *GROUP, *CHORD)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
        return _is_part(file, node.left) or _is_part(file, node.right)
    return False


def _is_part(file: PythonFile, node: cst.CSTNode) -> bool:
    return is_signature(file, node) or is_canvas(file, node)


def launched(file: PythonFile, canvas: cst.CSTNode) -> tuple[cst.Call, cst.BaseExpression | None]:
    """The call that starts a canvas, and the body that a chord is given by it. Raises `Unclear`."""
    parent = file.parent(canvas)
    if isinstance(parent, cst.Call) and parent.func is canvas:
        arguments = Arguments.of(parent)
        chord = isinstance(canvas, cst.Call) and file.is_(canvas.func, *CHORD)
        if chord and len(arguments.positional) == 1 and not arguments.keywords:
            return parent, arguments.positional[0]
        if not parent.args:
            return parent, None
    if isinstance(parent, cst.Attribute) and parent.value is canvas:
        call = file.parent(parent)
        if isinstance(call, cst.Call) and call.func is parent and parent.attr.value in LAUNCHES:
            if not call.args:
                return call, None
            raise Unclear("options of a whole canvas: give them to its nodes, call(…).options(…)")
    raise Unclear(
        "a canvas that is not submitted where it is made: build a taskmq.workflow.Workflow"
    )


@dataclass(frozen=True)
class Step:
    """The text of a node, or of a list of nodes."""

    parts: Parts
    members: int | None = None
    """How many a list has, 0 if that is seen at run time only; None for a single node."""


@dataclass
class Compiler:
    """Writes the statements that build a workflow. Raises `Unclear`."""

    file: PythonFile
    flow: str
    statements: list[Parts] = field(default_factory=list)
    released: list[cst.CSTNode] = field(default_factory=list)
    guessed: bool = False
    """Whether its result is a list of which nobody knows here that it has several members."""
    _inside: int = 0

    def build(self, canvas: cst.BaseExpression, body: cst.BaseExpression | None) -> None:
        """Statements for a canvas, and for the body of a chord."""
        made = self._part(canvas, None)
        if body is not None:
            made = self._part(body, made)
        if made.members == 1:
            raise Unclear("a group of one gives a list, a workflow of one node its result")
        self.guessed = made.members == 0
        self.statements.append(made.parts)

    def _part(self, node: cst.BaseExpression, before: Step | None) -> Step:
        if is_signature(self.file, node) and isinstance(node, cst.Call):
            return self._signature(node, before)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
            return self._part(node.right, self._part(node.left, before))
        if isinstance(node, cst.Call):
            if self.file.is_(node.func, *CHAIN):
                self.released.append(node.func)
                return self._chain(node, before)
            if self.file.is_(node.func, *GROUP):
                self.released.append(node.func)
                return self._group(node, before)
            if self.file.is_(node.func, *CHORD):
                self.released.append(node.func)
                return self._chord(node, before)
        raise Unclear("a part of the canvas is made elsewhere: build a taskmq.workflow.Workflow")

    def _signature(self, node: cst.Call, before: Step | None) -> Step:
        options: dict[str, Parts] = {}
        while isinstance(node.func, cst.Attribute) and node.func.attr.value == "set":
            given = Arguments.of(node)
            if given.positional or given.open or not isinstance(node.func.value, cst.Call):
                raise Unclear("options of a signature are hidden behind * or **")
            options = {**options_of(self.file, given.keywords), **options}
            node = node.func.value
        method = node.func
        if not isinstance(method, cst.Attribute):
            raise Unclear("a part of the canvas is made elsewhere")
        arguments: list[Parts] = []
        after: list[Parts] = []
        if before is not None and method.attr.value == "s":
            arguments.append(before.parts)
        elif before is not None:
            after.append(("after=", *before.parts))
        for each in node.args:
            keyword = f"{each.keyword.value}=" if each.keyword is not None else ""
            if not options and (keyword in {"after=", "name=", "run_if="} or each.star == "**"):
                raise Unclear("an argument has the name of an option of Workflow.add")
            arguments.append((f"{each.star}{keyword}", self.file.whole(each.value)))
        task: Parts = (self.file.whole(method.value),)
        if options:
            chosen: list[Parts] = [(f"{name}=", *value) for name, value in options.items()]
            call = (*task, ".call(", *comma_separated(arguments), ")")
            work = (*call, ".options(", *comma_separated(chosen), ")")
            return Step((f"{self.flow}.add(", *comma_separated([work, *after]), ")"))
        added = comma_separated([task, *arguments, *after])
        return Step((f"{self.flow}.add(", *added, ")"))

    def _chain(self, node: cst.Call, before: Step | None) -> Step:
        first, *others = self._written_out(node)
        made = self._part(first, before)
        for each in others:
            made = self._part(each, made)
        return made

    def _written_out(self, node: cst.Call) -> list[cst.BaseExpression]:
        arguments = Arguments.of(node)
        members = list(arguments.positional)
        if len(members) == 1 and isinstance(members[0], cst.List | cst.Tuple):
            members = [each.value for each in members[0].elements]
        if arguments.open or arguments.keywords or not members:
            raise Unclear("the members of the canvas are not written out here")
        return members

    def _group(self, node: cst.Call, before: Step | None) -> Step:
        arguments = Arguments.of(node)
        if len(arguments.positional) == 1 and not arguments.keywords and not arguments.open:
            (only,) = arguments.positional
            if isinstance(only, cst.GeneratorExp | cst.ListComp):
                return self._comprehension(only, before)
        return self._list(self._written_out(node), before)

    def _comprehension(self, node: Comprehension, before: Step | None) -> Step:
        before = self._named(before)
        self._inside += 1
        made = self._part(node.elt, before)
        self._inside -= 1
        if made.members is not None:
            raise Unclear(NESTED)
        return Step(("[", *made.parts, self.file.span(node.for_in), "]"), 0)

    def _list(self, members: list[cst.BaseExpression], before: Step | None) -> Step:
        before = self._named(before)
        made = [self._part(each, before) for each in members]
        if any(each.members is not None for each in made):
            raise Unclear(NESTED)
        return Step(("[", *comma_separated([each.parts for each in made]), "]"), len(made))

    def _chord(self, node: cst.Call, before: Step | None) -> Step:
        arguments = Arguments.of(node).named("header", "body")
        if arguments is None or not {"header"} <= arguments.keys() <= {"header", "body"}:
            raise Unclear("the members of the canvas are not written out here")
        header = arguments["header"]
        if isinstance(header, cst.List | cst.Tuple):
            made = self._list([each.value for each in header.elements], before)
        elif isinstance(header, cst.GeneratorExp | cst.ListComp):
            made = self._comprehension(header, before)
        else:
            made = self._part(header, before)
            if made.members is None:
                made = Step(("[", *made.parts, "]"), 1)
        return self._part(arguments["body"], made) if "body" in arguments else made

    def _named(self, before: Step | None) -> Step | None:
        """Something that can be written several times in place of what came before."""
        if before is None or len(before.parts) == 1:
            return before
        if self._inside:
            raise Unclear("steps before a group in a comprehension: build the workflow in a loop")
        name = f"step{len(self.statements) + 1}"
        self.statements.append((f"{name} = ", *before.parts))
        return Step((name,), before.members)
