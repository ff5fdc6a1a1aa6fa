"""Scopes of a Python module, and what binds each name in them.

One walk over the syntax tree also says what kinds of nodes there are and what is around each:
LibCST's own providers give the same in several walks, and take ten times as long.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from functools import cache

import libcst as cst

__all__ = ["Assignment", "Scope", "Tree"]

TRIVIA = frozenset(
    {
        "colon",
        "comma",
        "dot",
        "equal",
        "footer",
        "header",
        "lbrace",
        "lbracket",
        "leading_lines",
        "lines_after_decorators",
        "lines_after_module_import",
        "lpar",
        "operator",
        "rbrace",
        "rbracket",
        "rpar",
        "semicolon",
        "trailing_whitespace",
    }
)
OWN_SCOPE = frozenset(
    {
        cst.ClassDef,
        cst.DictComp,
        cst.FunctionDef,
        cst.GeneratorExp,
        cst.Lambda,
        cst.ListComp,
        cst.SetComp,
    }
)
BINDING = frozenset(
    {
        cst.AnnAssign,
        cst.AssignTarget,
        cst.AugAssign,
        cst.ExceptHandler,
        cst.ExceptStarHandler,
        cst.For,
        cst.Global,
        cst.Import,
        cst.ImportFrom,
        cst.MatchAs,
        cst.MatchMapping,
        cst.MatchStar,
        cst.NamedExpr,
        cst.Nonlocal,
        cst.WithItem,
    }
)


class Assignment:
    """Something that binds a name: an import, definition, parameter or target of an assignment."""

    __slots__ = ("name", "node", "references", "scope")

    def __init__(self, name: str, scope: Scope, node: cst.CSTNode | None) -> None:
        """``node`` is None for builtins."""
        self.name = name
        self.scope = scope
        self.node = node
        self.references: list[cst.Name] = []


class Scope:
    """Where names live: ``kind`` is global, class, function, comprehension or builtin."""

    def __init__(self, kind: str, parent: Scope | None, name: str = "") -> None:
        self.kind = kind
        self.parent = parent
        self.name = name
        self.globals: Scope = self if parent is None else parent.globals
        self.bindings: dict[str, list[Assignment]] = {}
        self.elsewhere: dict[str, Scope] = {}  # global and nonlocal names

    @property
    def assignments(self) -> Iterator[Assignment]:
        for each in self.bindings.values():
            yield from each

    def __contains__(self, name: str) -> bool:
        return bool(self[name])

    def __getitem__(self, name: str) -> list[Assignment]:
        """What binds a name that is used in this scope; builtins last."""
        scope: Scope | None = self.elsewhere.get(name, self)
        first = True
        while scope is not None:
            if (first or scope.kind != "class") and name in scope.bindings:
                return scope.bindings[name]
            scope, first = scope.parent, False
        if hasattr(builtins, name):
            return [Assignment(name, BUILTINS, None)]
        return []

    def bind(self, name: str, node: cst.CSTNode) -> None:
        home = self.elsewhere.get(name, self)
        home.bindings.setdefault(name, []).append(Assignment(name, home, node))


BUILTINS = Scope("builtin", None)


@cache
def _fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    """The fields of a node that hold syntax: no whitespace, no punctuation."""
    names = kind.__dataclass_fields__
    return tuple(each for each in names if each not in TRIVIA and not each.startswith("whitespace"))


KNOWN: dict[type, bool] = {}


def _is_node(kind: type) -> bool:
    """Whether a type is one of nodes. Asking each value itself is slow: nodes are abstract."""
    found = KNOWN.get(kind)
    if found is None:
        found = KNOWN[kind] = issubclass(kind, cst.CSTNode)
    return found


class Tree:
    """The nodes of a module by type, their parents, and the scope of each."""

    def __init__(self, module: cst.Module) -> None:
        self.by_type: dict[type, list[cst.CSTNode]] = {}
        self.parents: dict[cst.CSTNode, cst.CSTNode] = {}
        self.scopes: dict[cst.CSTNode, Scope] = {}
        self.root = Scope("global", None)
        self._binding: set[cst.CSTNode] = set()
        self._visit(module, self.root)
        self._refer()

    def _children(self, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
        for name in _fields(type(node)):
            value = getattr(node, name)
            if _is_node(type(value)):
                self.parents[value] = node
                yield value
            elif type(value) in (list, tuple):
                for each in value:
                    if _is_node(type(each)):
                        self.parents[each] = node
                        yield each

    def _visit(self, node: cst.CSTNode, scope: Scope) -> None:
        kind = type(node)
        self.by_type.setdefault(kind, []).append(node)
        self.scopes[node] = scope
        if kind in OWN_SCOPE:
            if isinstance(node, cst.FunctionDef | cst.Lambda):
                self._function(node, scope)
            elif isinstance(node, cst.ClassDef):
                self._class(node, scope)
            else:
                self._comprehension(node, scope)
            return
        if kind in BINDING:
            self._bind(node, scope)
        for child in self._children(node):
            self._visit(child, scope)

    def _bind(self, node: cst.CSTNode, scope: Scope) -> None:
        if isinstance(node, cst.Import | cst.ImportFrom):
            if not isinstance(node.names, cst.ImportStar):
                for alias in node.names:
                    self._import(alias, node, scope)
        elif isinstance(node, cst.Global):
            scope.elsewhere.update((each.name.value, scope.globals) for each in node.names)
        elif isinstance(node, cst.Nonlocal):
            for each in node.names:
                if scope.parent is not None:
                    scope.elsewhere[each.name.value] = scope.parent
        elif isinstance(node, cst.AssignTarget | cst.For | cst.AnnAssign | cst.AugAssign):
            self._target(node.target, scope)
        elif isinstance(node, cst.NamedExpr):
            home = scope
            while home.kind == "comprehension" and home.parent is not None:
                home = home.parent
            self._target(node.target, home)
        elif isinstance(node, cst.WithItem) and node.asname is not None:
            self._target(node.asname.name, scope)
        elif isinstance(node, cst.ExceptHandler | cst.ExceptStarHandler) and node.name is not None:
            self._target(node.name.name, scope)
        elif isinstance(node, cst.MatchAs | cst.MatchStar) and node.name is not None:
            self._target(node.name, scope)
        elif isinstance(node, cst.MatchMapping) and node.rest is not None:
            self._target(node.rest, scope)

    def _import(self, alias: cst.ImportAlias, node: cst.CSTNode, scope: Scope) -> None:
        bound: cst.CSTNode = alias.asname.name if alias.asname is not None else alias.name
        while isinstance(bound, cst.Attribute):
            bound = bound.value
        if isinstance(bound, cst.Name):
            scope.bind(bound.value, node)

    def _target(self, node: cst.CSTNode, scope: Scope) -> None:
        if isinstance(node, cst.Name):
            self._binding.add(node)
            scope.bind(node.value, node)
        elif isinstance(node, cst.Tuple | cst.List):
            for each in node.elements:
                self._target(each.value, scope)
        elif isinstance(node, cst.StarredElement):
            self._target(node.value, scope)

    def _function(self, node: cst.FunctionDef | cst.Lambda, scope: Scope) -> None:
        inner = Scope(
            "function", scope, node.name.value if isinstance(node, cst.FunctionDef) else ""
        )
        children = list(self._children(node))
        if isinstance(node, cst.FunctionDef):
            scope.bind(node.name.value, node)
            self._binding.add(node.name)
            # In the order of the source: decorators, name, parameters, result, body.
            first = [each for each in children if isinstance(each, cst.Decorator)]
            children = [*first, *(each for each in children if each not in first)]
        for child in children:
            if child is node.params:
                self._parameters(node.params, scope, inner)
            elif child is not node.body:
                self._visit(child, scope)
        self._visit(node.body, inner)

    def _parameters(self, node: cst.Parameters, scope: Scope, inner: Scope) -> None:
        self.by_type.setdefault(type(node), []).append(node)
        self.scopes[node] = scope
        for child in self._children(node):
            if isinstance(child, cst.Param):
                inner.bind(child.name.value, child)
                self._binding.add(child.name)
            # Defaults and annotations belong to the scope around.
            self._visit(child, scope)
            if isinstance(child, cst.Param):
                self.scopes[child.name] = inner

    def _class(self, node: cst.ClassDef, scope: Scope) -> None:
        scope.bind(node.name.value, node)
        self._binding.add(node.name)
        inner = Scope("class", scope, node.name.value)
        children = list(self._children(node))
        first = [each for each in children if isinstance(each, cst.Decorator)]
        for child in [*first, *(each for each in children if each not in first)]:
            if child is not node.body:
                self._visit(child, scope)
        self._visit(node.body, inner)

    def _comprehension(self, node: cst.CSTNode, scope: Scope) -> None:
        inner = Scope("comprehension", scope)
        for child in self._children(node):
            if isinstance(child, cst.CompFor):
                self._loop(child, inner, scope)
            else:
                self._visit(child, inner)

    def _loop(self, node: cst.CompFor, scope: Scope, around: Scope) -> None:
        """One ``for`` of a comprehension: what it goes through belongs to what is around it."""
        self.by_type.setdefault(type(node), []).append(node)
        self.scopes[node] = scope
        self._target(node.target, scope)
        for child in self._children(node):
            if isinstance(child, cst.CompFor):
                self._loop(child, scope, scope)
            else:
                self._visit(child, around if child is node.iter else scope)

    def _refer(self) -> None:
        """Give each assignment the names that refer to it."""
        for node in self.by_type.get(cst.Name, ()):
            if not isinstance(node, cst.Name) or node in self._binding:
                continue
            parent = self.parents.get(node)
            if isinstance(parent, cst.ImportAlias | cst.AsName | cst.NameItem):
                continue
            if isinstance(parent, cst.Attribute) and (
                parent.attr is node or isinstance(self.parents.get(parent), cst.ImportAlias)
            ):
                continue
            if isinstance(parent, cst.Arg) and parent.keyword is node:
                continue
            for assignment in self.scopes[node][node.value]:
                assignment.references.append(node)
