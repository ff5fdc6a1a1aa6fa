"""Where a file sets settings of Celery, by their present names, whatever way it is loaded."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import libcst as cst

from .arguments import Arguments
from .configstyle import Style, style_of
from .facts import Facts
from .names import literal_text
from .pythonfile import PythonFile
from .settingnames import NEW_NAMES, OLD_TO_NEW

__all__ = ["settings_in"]


@lru_cache(4)
def _styles(facts: Facts) -> dict[str, Style]:
    """How each configuration module of the project spells its settings, by its path."""
    found = {path: style_of(facts, module) for path, module in facts.modules.items()}
    return {path: style for path, style in found.items() if style is not None}


def settings_in(
    file: PythonFile,
) -> Iterator[tuple[cst.CSTNode, str, cst.BaseExpression]]:
    """What names each setting, its present name, and its value."""
    for assign in file.nodes(cst.Assign):
        for each in assign.targets:
            target = each.target
            if isinstance(target, cst.Attribute) and file.is_conf(target.value):
                yield from _named(target.attr, target.attr.value, assign.value)
            elif isinstance(target, cst.Subscript) and file.is_conf(target.value):
                index = target.slice[0].slice
                text = literal_text(index.value) if isinstance(index, cst.Index) else None
                yield from _named(target, text or "", assign.value)
    for call in file.nodes(cst.Call):
        method = call.func
        if isinstance(method, cst.Attribute) and method.attr.value == "update":
            if file.is_conf(method.value):
                for name, value in Arguments.of(call).keywords.items():
                    yield from _named(value, name, value)
        elif file.makes_app(method):
            for name, value in Arguments.of(call).keywords.items():
                if name in NEW_NAMES:
                    yield value, name, value
    yield from _of_module(file)


def _of_module(file: PythonFile) -> Iterator[tuple[cst.CSTNode, str, cst.BaseExpression]]:
    style = _styles(file.facts).get(file.path)
    if style is None:
        return
    prefix = f"{style.namespace}_" if style.namespace else ""
    for assign in file.nodes(cst.Assign):
        target = assign.targets[0].target
        if not isinstance(target, cst.Name) or file.enclosing(assign, cst.FunctionDef):
            continue
        name = target.value
        if name in OLD_TO_NEW:
            yield target, OLD_TO_NEW[name], assign.value
        elif name.startswith(prefix) and name.removeprefix(prefix).lower() in NEW_NAMES:
            yield target, name.removeprefix(prefix).lower(), assign.value


def _named(
    node: cst.CSTNode, name: str, value: cst.BaseExpression
) -> Iterator[tuple[cst.CSTNode, str, cst.BaseExpression]]:
    if name in OLD_TO_NEW:
        yield node, OLD_TO_NEW[name], value
    elif name.lower() in NEW_NAMES:
        yield node, name.lower(), value
