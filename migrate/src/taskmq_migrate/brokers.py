"""Which brokers a file names: the schemes of the URLs that settings and apps are given."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from .names import dotted, literal_text
from .pythonfile import PythonFile

__all__ = ["brokers_of"]

SETTINGS = ("broker_url", "broker_read_url", "broker_write_url")
SCHEME = re.compile(r"([a-z][a-z0-9+]*)://")


def brokers_of(file: PythonFile) -> Iterator[str]:
    """Schemes of all URLs inside of values that a broker is given, in any order."""
    if "broker" not in file.text.lower():
        return
    for value in _values(file):
        pending: list[cst.CSTNode] = [value]
        while pending:
            node = pending.pop()
            text = literal_text(node) if isinstance(node, cst.SimpleString) else None
            if isinstance(node, cst.FormattedStringText):
                text = node.value
            found = SCHEME.match(text or "")
            if found:
                yield found[1]
            pending += node.children


def _values(file: PythonFile) -> Iterator[cst.BaseExpression]:
    for assign in file.nodes(cst.Assign):
        target = assign.targets[0].target
        if isinstance(target, cst.Subscript):
            index = target.slice[0].slice
            name = literal_text(index.value) if isinstance(index, cst.Index) else None
        else:
            name = dotted(target).rpartition(".")[2]
        if _is_broker(name):
            yield assign.value
    for argument in file.nodes(cst.Arg):
        if argument.keyword is not None and (
            argument.keyword.value == "broker" or _is_broker(argument.keyword.value)
        ):
            yield argument.value
    for element in file.nodes(cst.DictElement):
        if _is_broker(literal_text(element.key)):
            yield element.value


def _is_broker(name: str | None) -> bool:
    return name is not None and name.lower().endswith(SETTINGS)
