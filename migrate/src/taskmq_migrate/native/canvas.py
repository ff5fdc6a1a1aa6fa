"""A canvas that is written out, as calls of a ``Workflow``."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from taskmq_migrate.arguments import Arguments, Parts, comma_separated
from taskmq_migrate.model import Edit
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile

from .signatures import calls_for, is_signature, kept_in, lists_of, plain

__all__ = ["CHAIN", "CHORD", "GROUP", "Compiler", "is_canvas"]

CHAIN = ("celery.chain", "celery.canvas.chain")
GROUP = ("celery.group", "celery.canvas.group")
CHORD = ("celery.chord", "celery.canvas.chord")
NESTED = "a group in a group: build a taskmq.workflow.Workflow of workflows"
NOT_WRITTEN = "the members of the canvas are not written out here"
ELSEWHERE = "a part of the canvas is made elsewhere: build a taskmq.workflow.Workflow"
Comprehension = cst.GeneratorExp | cst.ListComp
Options = dict[str, Parts]


def is_canvas(file: PythonFile, node: cst.CSTNode | None) -> bool:
    """Whether an expression is a chain, a group or a chord."""
    if isinstance(node, cst.Call):
        return file.is_(node.func, *CHAIN, *GROUP, *CHORD)
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
        return _is_part(file, node.left) or _is_part(file, node.right)
    return False


def _is_part(file: PythonFile, node: cst.CSTNode) -> bool:
    return is_signature(file, node) or is_canvas(file, node)


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
    gap: str
    """What separates two statements: a line end and the indentation."""
    options: Options = field(default_factory=dict)
    """Those that the whole canvas is submitted with."""
    statements: list[Parts] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    """What changes elsewhere: signatures that were put into variables."""
    released: list[cst.CSTNode] = field(default_factory=list)
    perhaps_empty: bool = False
    """Whether it may turn out to have no node at all, which Celery takes and a workflow not."""
    guessed: bool = False
    """Whether options are given to more steps of a chain than Celery gives them to."""
    perhaps_one: bool = False
    """Whether its result is a list of which nobody knows here that it has several members."""
    _inside: int = 0
    _extra: dict[cst.BaseExpression, Options] = field(default_factory=dict)

    def build(
        self, canvas: cst.BaseExpression, body: cst.BaseExpression | None, *, used: bool
    ) -> None:
        """Statements for a canvas, and for the body of a chord. Whether its result is used, counts
        where Celery's would be a list."""
        if self.options:
            self._spread(canvas, body, self.options)
        made = self._part(canvas, None)
        if body is not None:
            made = self._part(body, made)
        if made.members == 1 and used:
            raise Unclear("a group of one gives a list, a workflow of one node its result")
        self.perhaps_one = made.members == 0 and used
        if len(made.parts) > 1:
            self.statements.append(made.parts)

    # ------------------------------------------------------------- options of the whole

    def _spread(
        self, canvas: cst.BaseExpression, body: cst.BaseExpression | None, options: Options
    ) -> None:
        """Say which nodes Celery gives the options of the whole to: the first step of a chain, all
        members of a group, header and body of a chord (which waits for nothing else, though)."""
        first = self._first_of(canvas)
        if first is not None and not is_canvas(self.file, first):
            self._spread(first, None, options)
        elif isinstance(canvas, cst.Call) and self.file.is_(canvas.func, *GROUP):
            for each in self._members_of(canvas):
                self._spread(each, None, options)
        elif isinstance(canvas, cst.Call) and self.file.is_(canvas.func, *CHORD):
            arguments = Arguments.of(canvas).named("header", "body") or {}
            for each in _listed(arguments.get("header")):
                self._spread(each, None, options)
            later = {name: value for name, value in options.items() if name != "eta"}
            last = body if body is not None else arguments.get("body")
            if last is not None and later:
                self._spread(last, None, later)
        elif is_signature(self.file, canvas) or isinstance(canvas, cst.Name):
            self._extra[canvas] = options
        else:
            raise Unclear("options of a whole canvas: give them to its nodes, call(…).options(…)")

    def _first_of(self, canvas: cst.BaseExpression) -> cst.BaseExpression | None:
        """The first step of a chain."""
        while isinstance(canvas, cst.BinaryOperation):
            canvas = canvas.left
            if not isinstance(canvas, cst.BinaryOperation):
                return canvas
        if isinstance(canvas, cst.Call) and self.file.is_(canvas.func, *CHAIN):
            only = _only(canvas)
            return only if isinstance(only, cst.Name) else self._written_out(canvas)[0]
        return None

    def _members_of(self, group: cst.Call) -> list[cst.BaseExpression]:
        only = _only(group)
        return _listed(only) if only is not None else self._written_out(group)

    # ------------------------------------------------------------------------- the parts

    def _part(self, node: cst.BaseExpression, before: Step | None) -> Step:
        if is_signature(self.file, node) and isinstance(node, cst.Call):
            return self._signature(node, before)
        if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.BitOr):
            return self._part(node.right, self._part(node.left, before))
        if isinstance(node, cst.Name):
            return self._variable(node, before)
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
        raise Unclear(ELSEWHERE)

    def _variable(self, name: cst.Name, before: Step | None) -> Step:
        """A signature that was put into a variable for this: it is written here instead."""
        kept = kept_in(self.file, name)
        if kept is None:
            raise Unclear(ELSEWHERE)
        signature, line = kept
        self.edits.append(self.file.replace(self.file.lines_of(line)))
        if name in self._extra:
            self._extra[signature] = self._extra[name]
        return self._signature(signature, before)

    def _signature(self, node: cst.Call, before: Step | None) -> Step:
        if not self._inside:
            self.perhaps_empty = False
        made, method, options = plain(self.file, node)
        options = {**options, **self._extra.get(node, {})}
        arguments: list[Parts] = []
        after: list[Parts] = []
        if before is not None and method.attr.value == "s":
            arguments.append(before.parts)
        elif before is not None:
            after.append(("after=", *before.parts))
        for each in made.args:
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
        only = _only(node)
        if isinstance(only, cst.Name):
            return self._chain_of_list(only, before)
        first, *others = self._written_out(node)
        made = self._part(first, before)
        for each in others:
            made = self._part(each, made)
        return made

    def _chain_of_list(self, name: cst.Name, before: Step | None) -> Step:
        """A loop over calls that wait for each other, and for nothing that the others give."""
        members = lists_of(self.file, name)
        if members is None or before is not None or self._inside:
            raise Unclear(NOT_WRITTEN)
        if any(plain(self.file, each)[1].attr.value != "si" for each in members):
            raise Unclear("steps that take the result of the one before: build them in a loop")
        self.edits += calls_for(self.file, members)
        step = f"step{len(self.statements) + 1}"
        options = self._extra.get(name, {})
        if "eta" in options:
            raise Unclear("options of a whole canvas: give them to its nodes, call(…).options(…)")
        self.guessed = self.guessed or bool(options)
        self.perhaps_empty = True
        self.statements += [
            (f"{step} = ()",),
            (
                *("for call in ", self.file.whole(name), ":", self.gap, "    "),
                *(f"{step} = {self.flow}.add(", *self._with(options), f", after={step})"),
            ),
        ]
        return Step((step,))

    def _with(self, options: Options) -> Parts:
        """``call`` with options, where a loop gives it."""
        chosen: list[Parts] = [(f"{name}=", *value) for name, value in options.items()]
        return ("call.options(", *comma_separated(chosen), ")") if chosen else ("call",)

    def _written_out(self, node: cst.Call) -> list[cst.BaseExpression]:
        arguments = Arguments.of(node)
        members = list(arguments.positional)
        if len(members) == 1 and isinstance(members[0], cst.List | cst.Tuple):
            members = [each.value for each in members[0].elements]
        if arguments.open or arguments.keywords or not members:
            raise Unclear(NOT_WRITTEN)
        return members

    def _group(self, node: cst.Call, before: Step | None) -> Step:
        only = _only(node)
        if isinstance(only, cst.GeneratorExp | cst.ListComp | cst.Name):
            self.perhaps_empty = before is None
            if isinstance(only, cst.Name):
                return self._group_of_list(only, before)
            return self._comprehension(only, before)
        return self._list(self._written_out(node), before)

    def _group_of_list(self, name: cst.Name, before: Step | None) -> Step:
        members = lists_of(self.file, name)
        if members is None or before is not None or self._inside:
            raise Unclear(NOT_WRITTEN)
        self.edits += calls_for(self.file, members)
        work = self._with(self._extra.get(name, {}))
        loop = (" for call in ", self.file.whole(name))
        return Step((f"[{self.flow}.add(", *work, ")", *loop, "]"), 0)

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
            raise Unclear(NOT_WRITTEN)
        header = arguments["header"]
        if isinstance(header, cst.List | cst.Tuple):
            made = self._list([each.value for each in header.elements], before)
        elif isinstance(header, cst.GeneratorExp | cst.ListComp):
            made = self._comprehension(header, before)
        elif isinstance(header, cst.Name) and kept_in(self.file, header) is None:
            made = self._group_of_list(header, before)
        else:
            made = self._part(header, before)
            if made.members is None:
                made = Step(("[", *made.parts, "]"), 1)
        if "body" not in arguments:
            return made
        return self._part(arguments["body"], made)

    def _named(self, before: Step | None) -> Step | None:
        """Something that can be written several times in place of what came before."""
        if before is None or len(before.parts) == 1:
            return before
        if self._inside:
            raise Unclear("steps before a group in a comprehension: build the workflow in a loop")
        name = f"step{len(self.statements) + 1}"
        self.statements.append((f"{name} = ", *before.parts))
        return Step((name,), before.members)


def _only(call: cst.Call) -> cst.BaseExpression | None:
    """What a canvas is made of, if that is one argument, with a star or without one."""
    if len(call.args) != 1 or call.args[0].keyword is not None or call.args[0].star == "**":
        return None
    value = call.args[0].value
    starred = call.args[0].star == "*"
    iterable = isinstance(value, cst.GeneratorExp | cst.ListComp | cst.Name)
    return value if iterable and (starred or not isinstance(value, cst.Call)) else None


def _listed(node: cst.BaseExpression | None) -> list[cst.BaseExpression]:
    """The members of a list, where they are written; a variable stands for itself."""
    if isinstance(node, cst.List | cst.Tuple):
        return [each.value for each in node.elements]
    if isinstance(node, cst.GeneratorExp | cst.ListComp):
        return [node.elt]
    return [node] if node is not None else []
