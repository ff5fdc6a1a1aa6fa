"""The entries of a beat schedule that is written out, and what is done to them later."""

from __future__ import annotations

import libcst as cst

from taskmq_migrate.arguments import dict_items
from taskmq_migrate.model import Edit
from taskmq_migrate.names import literal_text
from taskmq_migrate.pythonfile import PythonFile

from .signatures import references_to

__all__ = ["Fields", "changed_later", "entries_of"]

Fields = dict[str, cst.BaseExpression]


def entries_of(value: cst.BaseExpression) -> dict[str, Fields | None] | None:
    """The fields of each entry by its name, None for an entry that is not written out here."""
    entries = dict_items(value)
    if entries is None:
        return None
    return {name: dict_items(each) for name, each in entries.items()}


def changed_later(
    file: PythonFile, target: cst.BaseExpression, entries: dict[str, Fields | None]
) -> list[Edit] | None:
    """Put what later statements of the same block assign to entries, or to fields of them, into
    ``entries``; the edits that take those statements out. None if anything else is done with the
    entries, or they are none of a plain variable."""
    if not isinstance(target, cst.Name):
        return None
    edits = []
    for each in references_to(file, target) or [target]:
        if each is target:
            continue
        keys, value, line = _assigned(file, each)
        if value is None or line is None or file.parent(line) is not _block(file, target):
            return None
        if len(keys) == 1:
            entries[keys[0]] = dict_items(value)
        else:
            fields = entries.get(keys[0])
            if fields is None:
                return None
            entries[keys[0]] = {**fields, keys[1]: value}
        edits.append(file.replace(file.lines_of(line)))
    return edits


def _assigned(
    file: PythonFile, name: cst.Name
) -> tuple[list[str], cst.BaseExpression | None, cst.SimpleStatementLine | None]:
    """Keys, value and line of ``name["entry"]["field"] = value``."""
    keys: list[str] = []
    node: cst.CSTNode | None = file.parent(name)
    while isinstance(node, cst.Subscript) and len(node.slice) == 1:
        index = node.slice[0].slice
        key = literal_text(index.value) if isinstance(index, cst.Index) else None
        keys.append(key or "")
        node = file.parent(node)
    assign = file.parent(node) if isinstance(node, cst.AssignTarget) else None
    line = file.parent(assign) if isinstance(assign, cst.Assign) else None
    if (
        not isinstance(assign, cst.Assign)
        or len(assign.targets) != 1
        or not isinstance(line, cst.SimpleStatementLine)
        or len(line.body) != 1
        or line.trailing_whitespace.comment is not None
        or not 1 <= len(keys) <= 2
        or "" in keys
    ):
        return keys, None, None
    return keys, assign.value, line


def _block(file: PythonFile, target: cst.Name) -> cst.CSTNode | None:
    return file.parent(file.statement(target))
