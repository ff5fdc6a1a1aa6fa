"""A Python file: its syntax tree, the places of its nodes, and what its names stand for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, TypeVar

import libcst as cst
from libcst import metadata
from libcst.metadata.span_provider import SpanProvidingCodegenState, byte_length_in_utf8

from .document import Document
from .facts import Facts
from .model import Action, Edit, Kind, NewImport, Safety, Site, Span
from .names import Names, dotted, root_name
from .problems import Unreadable
from .scopes import Scope, Tree

__all__ = ["PythonFile"]

N = TypeVar("N", bound=cst.CSTNode)
FORM_FEEDS = re.compile(r"(?m)(?:^|(?<=\r))\f+")
Where = cst.CSTNode | Span
SUBMITS = frozenset({"apply_async", "delay", "submit"})


class _Places(metadata.ByteSpanPositionProvider):
    """Where each node is, of the one walk that gives the text back as well.

    Asked for through LibCST's wrapper, the same takes three walks.
    """

    def walk(self, module: cst.Module) -> str:
        state = SpanProvidingCodegenState(
            default_indent=module.default_indent,
            default_newline=module.default_newline,
            get_length=byte_length_in_utf8,
            provider=self,
        )
        module._codegen(state)
        return "".join(state.tokens)

    @property
    def found(self) -> Mapping[cst.CSTNode, Any]:
        return self._computed


class PythonFile(Document):
    """A Python module. Parsing is done at once, and raises `Unreadable`; the rest when asked."""

    def __init__(self, path: str, text: str, facts: Facts) -> None:
        super().__init__(path, Kind.PYTHON, text, facts)
        # The parser loses form feeds at the start of a line: it reads the text without them.
        self._dropped = [each.span() for each in FORM_FEEDS.finditer(text)]
        parsed = FORM_FEEDS.sub("", text) if self._dropped else text
        try:
            module = cst.parse_module(parsed)
        except cst.ParserSyntaxError as error:
            lines = parsed.splitlines()
            shown = lines[error.raw_line - 1].strip()[:60] if error.raw_line <= len(lines) else ""
            raise Unreadable(f"line {error.raw_line} is no Python: {shown}") from None
        except RecursionError:
            raise Unreadable("is nested too deeply to be parsed") from None
        self._parsed = parsed
        self.module = module

    # ------------------------------------------------------------------------------- tree

    @cached_property
    def _tree(self) -> Tree:
        return Tree(self.module)

    def nodes(self, kind: type[N]) -> list[N]:
        """All nodes of a type, in the order of the source. Whitespace is none."""
        return self._tree.by_type.get(kind, [])  # type: ignore[return-value]  # filed by their type

    @property
    def parents(self) -> dict[cst.CSTNode, cst.CSTNode]:
        return self._tree.parents

    def parent(self, node: cst.CSTNode) -> cst.CSTNode | None:
        return self.parents.get(node)

    def ancestors(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        """The nodes around a node, the nearest first."""
        current = self.parents.get(node)
        while current is not None:
            yield current
            current = self.parents.get(current)

    def enclosing(self, node: cst.CSTNode, kind: type[N]) -> N | None:
        """The nearest node of a type around a node."""
        for each in self.ancestors(node):
            if isinstance(each, kind):
                return each
        return None

    # ----------------------------------------------------------------------------- places

    @cached_property
    def _places(self) -> Mapping[cst.CSTNode, Any]:
        places = _Places()
        if places.walk(self.module) != self._parsed:
            raise Unreadable("the parser does not give it back unchanged")
        return places.found

    @cached_property
    def _characters(self) -> list[int] | None:
        """For each byte of the parsed text, the character it belongs to; None if it is ASCII."""
        if self._parsed.isascii():
            return None
        found: list[int] = []
        for number, character in enumerate(self._parsed):
            found += [number] * len(character.encode())
        found.append(len(self._parsed))
        return found

    def _offset(self, byte: int) -> int:
        offset = self._characters[byte] if self._characters is not None else byte
        for start, end in self._dropped:
            if start > offset:
                break
            offset += end - start
        return offset

    def span(self, node: cst.CSTNode) -> Span:
        """Where a node is, without the whitespace around it (parentheses of its own excluded)."""
        place = self._places[node]
        return Span(self._offset(place.start), self._offset(place.start + place.length))

    def lines_of(self, line: cst.SimpleStatementLine) -> Span:
        """The lines of a statement from the start of the first to the start of the next one."""
        span = self.span(line)
        end = next((each for each in self.line_starts if each >= span.end), len(self.text))
        return Span(self.line_start(span.start), end)

    def whole(self, node: cst.BaseExpression) -> Span:
        """Where an expression is, with the parentheses around it."""
        if not node.lpar:
            return self.span(node)
        return Span(self.span(node.lpar[0]).start, self.span(node.rpar[-1]).end)

    def code(self, node: cst.CSTNode) -> str:
        """The source of a node."""
        return self.source(self.span(node))

    def statement(self, node: cst.CSTNode) -> cst.CSTNode:
        """The statement in a block that a node belongs to, or is."""
        current = node
        for parent in self.ancestors(node):
            if isinstance(parent, cst.IndentedBlock | cst.Module):
                return current
            current = parent
        return current

    def statement_start(self, offset: int) -> int:
        found = self._statement_at(offset)
        return super().statement_start(offset) if found is None else self.line_start(found)

    def _statement_at(self, offset: int) -> int | None:
        """Where the innermost statement of a block begins that holds an offset."""
        best: int | None = None
        for start, end in self._statements:
            if start <= offset <= end and (best is None or start > best):
                best = start
        return best

    @cached_property
    def _statements(self) -> list[tuple[int, int]]:
        found = []
        blocks: list[cst.IndentedBlock | cst.Module] = [self.module]
        blocks += self.nodes(cst.IndentedBlock)
        for block in blocks:
            for each in block.body:
                span = self.span(each)
                start = span.start
                if isinstance(each, cst.FunctionDef | cst.ClassDef) and each.decorators:
                    start = self.span(each.decorators[0]).start
                found.append((start, span.end))
        return found

    def comments(self) -> list[Span]:
        return self._comments

    @cached_property
    def _comments(self) -> list[Span]:
        found: list[Span] = []
        stack: list[cst.CSTNode] = [self.module]
        while stack:
            node = stack.pop()
            if isinstance(node, cst.Comment):
                found.append(self.span(node))
            stack.extend(node.children)
        return sorted(found)

    # ------------------------------------------------------------------------------ names

    @cached_property
    def resolver(self) -> Names:
        return Names(self.path, self._tree.scopes, self.parents, self.stars, self.facts)

    @cached_property
    def stars(self) -> tuple[str, ...]:
        """Modules of which everything is imported at the top level."""
        names = Names(self.path, {}, self.parents, (), self.facts)
        return tuple(
            names.imported_module(each)
            for each in self.nodes(cst.ImportFrom)
            if isinstance(each.names, cst.ImportStar)
        )

    @property
    def global_scope(self) -> Scope:
        return self._tree.root

    def names(self, node: cst.CSTNode) -> frozenset[str]:
        """The full names that a name or attribute may stand for. Empty for other expressions."""
        return self.resolver.canonical(node)

    def is_(self, node: cst.CSTNode, *wanted: str) -> bool:
        """Whether a name or attribute stands for one of these full names.

        A conditional import counts if one of its branches does; a name that is bound elsewhere
        too, or shadowed, does not.
        """
        found = self.names(node)
        if found.isdisjoint(wanted):
            return False
        root = root_name(node)
        return found <= set(wanted) or (root is not None and self.resolver.are_alternatives(root))

    def is_app(self, node: cst.CSTNode) -> bool:
        """Whether an expression is a Celery app, as far as can be seen."""
        if any(self.facts.is_app(each, self.path) for each in self.resolver.raw(node)):
            return True
        if isinstance(node, cst.Call):
            return self.makes_app(node.func)
        value, annotation = self.bound_to(node)
        if annotation is not None and self.makes_app(annotation):
            return True
        return isinstance(value, cst.Call) and self.makes_app(value.func)

    def makes_app(self, node: cst.CSTNode) -> bool:
        """Whether calling an expression gives a Celery app."""
        names = self.resolver.raw(node)
        return any(self.facts.makes_app(each, self.path) for each in names)

    def is_task(self, node: cst.CSTNode) -> bool:
        """Whether an expression is a task: a name that stands for a decorated function."""
        return any(self.facts.is_task(each, self.path) for each in self.resolver.raw(node))

    def is_task_decorator(self, node: cst.CSTNode) -> bool:
        """Whether a decorator (its callable) makes a task."""
        if any(self.facts.is_task_decorator(each, self.path) for each in self.resolver.raw(node)):
            return True
        return (
            isinstance(node, cst.Attribute)
            and node.attr.value == "task"
            and self.is_app(node.value)
        )

    def is_conf(self, node: cst.CSTNode) -> bool:
        """Whether an expression is ``conf`` of a Celery app."""
        return (
            isinstance(node, cst.Attribute)
            and node.attr.value == "conf"
            and self.is_app(node.value)
        )

    def is_submission(self, node: cst.CSTNode | None) -> bool:
        """Whether an expression is a call that makes a job of a task, of Celery or the engine."""
        return (
            isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and node.func.attr.value in SUBMITS
            and self.is_task(node.func.value)
        )

    def references(self) -> Iterator[cst.Name | cst.Attribute]:
        """The uses of names: whole, with their attributes, and outside of imports."""
        found: list[cst.Name | cst.Attribute] = [*self.nodes(cst.Name), *self.nodes(cst.Attribute)]
        for node in found:
            if isinstance(self.parent(node), cst.Attribute | cst.ImportAlias | cst.AsName):
                continue
            if not any(
                isinstance(each, cst.ImportFrom | cst.Import) for each in self.ancestors(node)
            ):
                yield node

    def bound_to(
        self, node: cst.CSTNode
    ) -> tuple[cst.BaseExpression | None, cst.BaseExpression | None]:
        """Value and annotation of the one assignment or parameter that binds a plain name."""
        if not isinstance(node, cst.Name):
            return None, None
        found = self.resolver.assignments(node)
        if len(found) != 1:
            return None, None
        target = found[0].node
        holder = self.parents.get(target) if target is not None else None
        if isinstance(target, cst.Param):
            holder = target
        if isinstance(holder, cst.AssignTarget):
            holder = self.parents.get(holder)
        if isinstance(holder, cst.Assign):
            return (holder.value, None) if len(holder.targets) == 1 else (None, None)
        if isinstance(holder, cst.AnnAssign):
            return holder.value, holder.annotation.annotation
        if isinstance(holder, cst.Param):
            return None, holder.annotation.annotation if holder.annotation is not None else None
        return None, None

    # What has to be imported.

    def import_as(self, full: str, at: cst.CSTNode) -> tuple[str, tuple[NewImport, ...]]:
        """How to write a full name at a place, and what has to be imported for that.

        A module-level import that is there is used. Where the short name means something else,
        the import gets an alias.
        """
        module, _, name = full.rpartition(".")
        scope = self.resolver.scope(at) or self.global_scope
        for text in self._imported(full):
            if self._means(scope, text.partition(".")[0]):
                return text, ()
        taken = name in scope
        if not taken:
            return name, (NewImport(module, name),)
        alias = f"{module.partition('.')[0]}_{name}"
        return alias, (NewImport(module, name, alias),)

    def _imported(self, full: str) -> Iterator[str]:
        """How the imports at the top of the module let a full name be written."""
        for line in self.module.body:
            for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
                if isinstance(small, cst.ImportFrom) and not isinstance(
                    small.names, cst.ImportStar
                ):
                    module = self.resolver.imported_module(small)
                    for alias in small.names:
                        bound = alias.asname.name if alias.asname is not None else alias.name
                        text = f"{module}.{dotted(alias.name)}"
                        if full == text:
                            yield dotted(bound)
                        elif full.startswith(f"{text}."):
                            yield dotted(bound) + full[len(text) :]
                elif isinstance(small, cst.Import):
                    for alias in small.names:
                        text = dotted(alias.name)
                        if full.startswith(f"{text}."):
                            bound = alias.asname.name if alias.asname is not None else alias.name
                            yield dotted(bound) + full[len(text) :]

    def _means(self, scope: Scope, name: str) -> bool:
        """Whether a name is the one of the module's top level, bound by imports alone."""
        found = scope[name]
        return bool(found) and all(
            each.scope.kind == "global" and isinstance(each.node, cst.Import | cst.ImportFrom)
            for each in found
        )

    # ------------------------------------------------------------------------------ sites

    def _where(self, where: Where) -> Span:
        return where if isinstance(where, Span) else self.span(where)

    def convert_at(
        self,
        where: Where,
        message: str,
        *edits: Edit,
        imports: tuple[NewImport, ...] = (),
        released: tuple[cst.CSTNode, ...] = (),
        safety: Safety | None = None,
    ) -> Site:
        """A site to convert. `released` are the names or attributes that the edits take away."""
        roots = [root for each in released if (root := root_name(each)) is not None]
        return Site(
            Action.CONVERT,
            self._where(where),
            message,
            edits,
            imports,
            tuple(self.span(each) for each in roots),
            safety,
        )

    def mark_at(self, where: Where, message: str) -> Site:
        """A site that is left as it is, with a marker above its statement."""
        return self.mark(self._where(where), message)

    def report_at(self, where: Where, message: str) -> Site:
        return self.report(self._where(where), message)

    def swap(self, node: cst.CSTNode, *parts: str | cst.CSTNode) -> Edit:
        """An edit: text and kept nodes in place of a node."""
        kept = tuple(each if isinstance(each, str) else self.span(each) for each in parts)
        return self.replace(self.span(node), *kept)
