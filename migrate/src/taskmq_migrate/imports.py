"""Imports that rules need or no longer need, as edits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import libcst as cst

from .model import Edit, NewImport, Span
from .names import dotted
from .pythonfile import PythonFile
from .scopes import Assignment

__all__ = ["DIRECTIVES", "change_imports"]

DIRECTIVES = (
    "# fmt:",
    "# isort:",
    "# mypy:",
    "# noqa",
    "# nosec",
    "# pragma:",
    "# pylint:",
    "# pyright:",
    "# ruff:",
    "# type:",
)
"""Comments that speak to a tool, about the line that they stand on."""


def change_imports(
    file: PythonFile,
    wanted: Iterable[NewImport],
    released: Iterable[Span],
    accept: Callable[[tuple[Edit, ...]], bool],
) -> None:
    """Take out what has no other use, and put in what is missing.

    ``accept`` takes a group of edits whole, or refuses it because it contradicts others.
    """
    missing = sorted({each for each in wanted if not _is_there(file, each)})
    gone = _unused(file, set(released))
    placed = not missing
    for statement, aliases in gone:
        names = statement.names
        if isinstance(names, cst.ImportStar):
            continue
        if len(aliases) < len(names):
            accept(_without(file, names, aliases))
            continue
        if not placed and _is_top(file, statement):
            # The new imports take the place of the old one.
            text = file.newline.join(_statements(missing))
            placed = accept((file.swap(statement, text),))
            if placed:
                continue
        accept((_removed(file, statement),))
    if not placed:
        accept(_added(file, missing, {id(each) for each, _ in gone}))


def _statements(missing: Iterable[NewImport]) -> list[str]:
    """Import statements, those of one module joined."""
    lines: list[str] = []
    last = ""
    for each in missing:
        plain = bool(each.name) and not each.alias
        if plain and each.module == last:
            lines[-1] += f", {each.name}"
        else:
            lines.append(each.statement())
        last = each.module if plain else ""
    return lines


def _is_there(file: PythonFile, wanted: NewImport) -> bool:
    for line in file.module.body:
        for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if isinstance(small, cst.Import) and not wanted.name:
                for alias in small.names:
                    asname = dotted(alias.asname.name) if alias.asname is not None else ""
                    if dotted(alias.name) == wanted.module and asname == wanted.alias:
                        return True
            elif isinstance(small, cst.ImportFrom) and not isinstance(small.names, cst.ImportStar):
                if file.resolver.imported_module(small) != wanted.module:
                    continue
                for alias in small.names:
                    asname = dotted(alias.asname.name) if alias.asname is not None else ""
                    if dotted(alias.name) == wanted.name and asname == wanted.alias:
                        return True
    return False


def _unused(
    file: PythonFile, released: set[Span]
) -> list[tuple[cst.Import | cst.ImportFrom, list[cst.ImportAlias]]]:
    """Imported names of which every reference is released, by statement."""
    scope = file.global_scope
    if not released:
        return []
    exported = _exported(file)
    found: dict[int, tuple[cst.Import | cst.ImportFrom, list[cst.ImportAlias]]] = {}
    for assignment in scope.assignments:
        node = assignment.node
        if not isinstance(node, cst.Import | cst.ImportFrom) or isinstance(
            node.names, cst.ImportStar
        ):
            continue
        if assignment.name in exported:
            continue
        spans = _references(file, assignment)
        if not spans or not spans <= released:
            continue
        for alias in node.names:
            bound = alias.asname.name if alias.asname is not None else alias.name
            if dotted(bound) == assignment.name:
                found.setdefault(id(node), (node, []))[1].append(alias)
    return sorted(found.values(), key=lambda each: file.span(each[0]))


def _references(file: PythonFile, assignment: Assignment) -> set[Span]:
    spans = {file.span(each) for each in assignment.references}
    if re.search(rf"\b{re.escape(assignment.name)}\b", _annotations(file)):
        spans.add(Span(-1, -1))  # in a string annotation: never released
    return spans


def _annotations(file: PythonFile) -> str:
    """The strings in annotations: names in them refer to something too."""
    return " ".join(
        each.value
        for each in file.nodes(cst.SimpleString)
        if file.enclosing(each, cst.Annotation) is not None
    )


def _exported(file: PythonFile) -> set[str]:
    """The names in ``__all__``."""
    found = set()
    for assign in file.nodes(cst.Assign):
        if any(dotted(each.target) == "__all__" for each in assign.targets) and isinstance(
            assign.value, cst.List | cst.Tuple
        ):
            for element in assign.value.elements:
                if isinstance(element.value, cst.SimpleString):
                    found.add(str(element.value.evaluated_value))
    return found


def _is_top(file: PythonFile, statement: cst.CSTNode) -> bool:
    line = file.parent(statement)
    return line is not None and file.parent(line) is file.module


def _without(
    file: PythonFile, names: Sequence[cst.ImportAlias], gone: list[cst.ImportAlias]
) -> tuple[Edit, ...]:
    """Takes some names out of an import: each with the comma and space behind it, or before."""
    edits = []
    kept = [each for each in names if each not in gone]
    last = kept[-1]
    for number, alias in enumerate(names):
        if alias not in gone:
            continue
        if number > list(names).index(last):
            continue
        edits.append(Edit(file.span(alias).start, file.span(names[number + 1]).start, ()))
    if last is not names[-1]:
        edits.append(Edit(_end(file, last), _end(file, names[-1]), ()))
    return tuple(edits)


def _end(file: PythonFile, alias: cst.ImportAlias) -> int:
    """Where an alias ends, its comma excluded."""
    node = alias.asname.name if alias.asname is not None else alias.name
    return file.span(node).end


def _removed(file: PythonFile, statement: cst.Import | cst.ImportFrom) -> Edit:
    """Takes a whole import out, with its line if nothing else is on it."""
    line = file.parent(statement)
    block = file.parent(line) if line is not None else None
    span = file.span(statement)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) > 1:
        return file.replace(span, "pass")
    if isinstance(block, cst.IndentedBlock) and len(block.body) == 1:
        return file.replace(span, "pass")
    comment = line.trailing_whitespace.comment
    if comment is not None and not comment.value.startswith(DIRECTIVES):
        return file.replace(Span(span.start, file.span(comment).start))
    start = file.line_start(span.start)
    following = [each for each in file.line_starts if each > span.end]
    return Edit(start, following[0] if following else len(file.text), ())


def _added(file: PythonFile, missing: list[NewImport], gone: set[int]) -> tuple[Edit, ...]:
    """Adds imports: to a from-import of the same module, else below the imports at the top."""
    edits: list[Edit] = []
    lines = [each for each in missing if not _joined(file, each, gone, edits)]
    if lines:
        text = "".join(each + file.newline for each in _statements(lines))
        edits.append(_insertion(file, text))
    return tuple(edits)


def _joined(file: PythonFile, wanted: NewImport, gone: set[int], edits: list[Edit]) -> bool:
    for line in file.module.body:
        for small in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            if (
                not wanted.name
                or not isinstance(small, cst.ImportFrom)
                or isinstance(small.names, cst.ImportStar)
                or id(small) in gone
                or file.resolver.imported_module(small) != wanted.module
            ):
                continue
            last = small.names[-1]
            start = file.span(last).start
            before = file.text[file.line_start(start) : start]
            alias = f" as {wanted.alias}" if wanted.alias else ""
            own_line = small.lpar is not None and not before.strip()
            gap = file.newline + before if own_line else " "
            edits.append(file.insert(_end(file, last), f",{gap}{wanted.name}{alias}"))
            return True
    return False


def _is_docstring(line: cst.SimpleStatementLine) -> bool:
    first = line.body[0]
    return isinstance(first, cst.Expr) and isinstance(
        first.value, cst.SimpleString | cst.ConcatenatedString
    )


def _insertion(file: PythonFile, text: str) -> Edit:
    """New import lines below the imports that the module starts with."""
    last: cst.CSTNode | None = None
    first_other: cst.CSTNode | None = None
    for number, line in enumerate(file.module.body):
        if isinstance(line, cst.SimpleStatementLine):
            if any(isinstance(each, cst.Import | cst.ImportFrom) for each in line.body):
                last = line
                continue
            if number == 0 and _is_docstring(line):
                continue
        first_other = line
        break
    if last is not None:
        end = file.span(last).end
        following = [each for each in file.line_starts if each > end]
        if following:
            return file.insert(following[0], text)
        return file.insert(len(file.text), file.newline + text.removesuffix(file.newline))
    if first_other is not None:
        at = file.line_start(file.statement_start(file.span(first_other).start))
        return file.insert(at, text + file.newline)
    return file.insert(len(file.text), text)
