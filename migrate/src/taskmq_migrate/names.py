"""What a name in Python source stands for, following scopes, imports, aliases and fallbacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import libcst as cst

from .facts import Facts
from .scopes import Assignment, Scope

__all__ = ["Names", "dotted", "literal_text", "module_of", "root_name"]

LOCAL = "<local>"
Known = dict[tuple[int, str], frozenset[str]]


def module_of(path: str) -> tuple[str, str]:
    """Dotted name of the module in a file, and of the package that its relative imports mean."""
    parts = path.removesuffix(".py").removesuffix(".pyi").split("/")
    if parts[-1] == "__init__":
        name = ".".join(parts[:-1])
        return name, name
    return ".".join(parts), ".".join(parts[:-1])


def dotted(node: cst.CSTNode | None) -> str:
    """The text of a name with attributes, such as ``app.conf``; empty for anything else."""
    if isinstance(node, cst.Name):
        return node.value
    if isinstance(node, cst.Attribute):
        owner = dotted(node.value)
        return f"{owner}.{node.attr.value}" if owner else ""
    return ""


def root_name(node: cst.CSTNode) -> cst.Name | None:
    """The leftmost name of a chain of attributes."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return node if isinstance(node, cst.Name) else None


def literal_text(node: cst.CSTNode | None) -> str | None:
    """The value of a plain string literal; None for anything else."""
    if isinstance(node, cst.SimpleString | cst.ConcatenatedString):
        value = node.evaluated_value
        return value if isinstance(value, str) else None
    return None


class Names:
    """Resolves the names of one module."""

    def __init__(
        self,
        path: str,
        scopes: Mapping[cst.CSTNode, Scope],
        parents: dict[cst.CSTNode, cst.CSTNode],
        stars: tuple[str, ...],
        facts: Facts,
    ) -> None:
        self.path = path
        self.module, self.package = module_of(path)
        self._scopes = scopes
        self._parents = parents
        self._stars = stars
        self._facts = facts
        self._raw: Known = {}
        self._canonical: Known = {}

    def scope(self, node: cst.CSTNode) -> Scope | None:
        return self._scopes.get(node)

    def assignments(self, name: cst.Name) -> list[Assignment]:
        """What binds a name, where it is used."""
        scope = self.scope(name)
        return scope[name.value] if scope is not None else []

    def raw(self, node: cst.CSTNode) -> frozenset[str]:
        """Full names, as this file's imports say: re-exports of other files not followed."""
        return self._named(node, self._raw)

    def canonical(self, node: cst.CSTNode) -> frozenset[str]:
        """Full names, re-exports and aliases of the whole project followed."""
        return self._named(node, self._canonical)

    def _named(self, node: cst.CSTNode, known: Known) -> frozenset[str]:
        """Answers are kept: a text means the same everywhere in a scope."""
        root = root_name(node)
        if root is None:
            return frozenset()
        text = dotted(node)
        key = (id(self.scope(root)), text)
        found = known.get(key)
        if found is None:
            found = self._resolved(root, text[len(root.value) :])
            if known is self._canonical:
                found = frozenset(self._facts.canonical(each, self.path) for each in found)
            known[key] = found
        return found

    def _resolved(self, root: cst.Name, rest: str) -> frozenset[str]:
        found = self.assignments(root)
        if not found:
            return frozenset(f"{star}.{root.value}{rest}" for star in self._stars)
        return frozenset(f"{self.full_name(each, root.value)}{rest}" for each in found)

    def full_name(self, assignment: Assignment, name: str) -> str:
        """The full name of what an assignment binds."""
        node = assignment.node
        if node is None:
            return f"builtins.{name}"
        if isinstance(node, cst.Import):
            for alias in node.names:
                if alias.asname is not None and dotted(alias.asname.name) == name:
                    return dotted(alias.name)
            return name
        if isinstance(node, cst.ImportFrom):
            module = self.imported_module(node)
            if not isinstance(node.names, cst.ImportStar):
                for alias in node.names:
                    bound = alias.asname.name if alias.asname is not None else alias.name
                    if dotted(bound) == name:
                        return f"{module}.{dotted(alias.name)}"
        if assignment.scope.kind == "global":
            return f"{self.module}.{name}"
        return f"{self.module}.{LOCAL}.{name}"

    def imported_module(self, node: cst.ImportFrom) -> str:
        """The full name of the module that a from-import names."""
        named = dotted(node.module)
        if not node.relative:
            return named
        parts = self.package.split(".") if self.package else []
        base = parts[: len(parts) - len(node.relative) + 1]
        return ".".join([*base, named] if named else base)

    def are_alternatives(self, name: cst.Name) -> bool:
        """Whether all that binds a name is one conditional import, ``None`` before it aside."""
        around: list[set[int]] = []
        for each in self.assignments(name):
            if each.node is None:
                return False
            if self._binds_none(each.node):
                continue
            around.append(self._conditions(each.node))
        return not around or bool(set.intersection(*around))

    def _conditions(self, node: cst.CSTNode) -> set[int]:
        found = set()
        current: cst.CSTNode | None = node
        while current is not None:
            if isinstance(current, cst.Try | cst.If):
                found.add(id(current))
            current = self._parents.get(current)
        return found

    def _binds_none(self, node: cst.CSTNode) -> bool:
        target = self._parents.get(node)
        assign = self._parents.get(target) if isinstance(target, cst.AssignTarget) else target
        value = assign.value if isinstance(assign, cst.Assign | cst.AnnAssign) else None
        return isinstance(value, cst.Name) and value.value == "None"


def one_of(names: Iterable[str], wanted: Iterable[str]) -> bool:
    """Whether two sets of names meet."""
    return not frozenset(wanted).isdisjoint(names)
