"""What a call is given, and calls to write in its place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from keyword import iskeyword

import libcst as cst

from .model import Span
from .names import literal_text
from .pythonfile import PythonFile

__all__ = [
    "Arguments",
    "Part",
    "Parts",
    "comma_separated",
    "dict_items",
    "is_literal",
    "number",
    "spread",
    "spread_keywords",
]

Part = str | Span
Parts = tuple[Part, ...]


@dataclass(frozen=True)
class Arguments:
    """The arguments of a call, by how they are passed."""

    positional: tuple[cst.BaseExpression, ...]
    keywords: dict[str, cst.BaseExpression]
    open: bool
    """Whether ``*`` or ``**`` adds some that cannot be seen here."""

    @classmethod
    def of(cls, call: cst.Call) -> Arguments:
        positional: list[cst.BaseExpression] = []
        keywords: dict[str, cst.BaseExpression] = {}
        is_open = False
        for each in call.args:
            if each.star:
                is_open = True
            elif each.keyword is not None:
                keywords[each.keyword.value] = each.value
            else:
                positional.append(each.value)
        return cls(tuple(positional), keywords, is_open)

    def named(self, *names: str) -> dict[str, cst.BaseExpression] | None:
        """All of them by name, where ``names`` are the parameters in their order."""
        if self.open or len(self.positional) > len(names):
            return None
        given = dict(zip(names, self.positional, strict=False))
        return None if given.keys() & self.keywords.keys() else {**given, **self.keywords}


def is_literal(node: cst.CSTNode | None, *names: str) -> bool:
    """Whether an expression is one of the names ``True``, ``False``, ``None``."""
    return isinstance(node, cst.Name) and node.value in names


def number(node: cst.CSTNode | None) -> float | None:
    """The value of a number that is written out."""
    if isinstance(node, cst.Integer | cst.Float):
        return float(node.evaluated_value)
    return None


def dict_items(node: cst.CSTNode | None) -> dict[str, cst.BaseExpression] | None:
    """Keys and values of ``{"a": …}`` or ``dict(a=…)`` with plain keys; else None."""
    found: dict[str, cst.BaseExpression] = {}
    if isinstance(node, cst.Dict):
        for element in node.elements:
            key = literal_text(element.key) if isinstance(element, cst.DictElement) else None
            if key is None or not isinstance(element, cst.DictElement):
                return None
            found[key] = element.value
        return found
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) and node.func.value == "dict":
        arguments = Arguments.of(node)
        return None if arguments.positional or arguments.open else arguments.keywords
    return None


def spread(file: PythonFile, args: cst.BaseExpression | None) -> list[Parts]:
    """The positional arguments that ``args=`` means: those of a literal one by one, else ``*``."""
    if args is None or is_literal(args, "None"):
        return []
    if isinstance(args, cst.Tuple | cst.List):
        return [
            (("*" if isinstance(each, cst.StarredElement) else "", file.whole(each.value)))
            for each in args.elements
        ]
    return [("*", file.whole(args))]


def spread_keywords(
    file: PythonFile, kwargs: cst.BaseExpression | None
) -> tuple[list[Parts], frozenset[str] | None]:
    """The keyword arguments that ``kwargs=`` means, and their names if all of them are known."""
    if kwargs is None or is_literal(kwargs, "None"):
        return [], frozenset()
    items = dict_items(kwargs)
    if items is not None and all(each.isidentifier() and not iskeyword(each) for each in items):
        found: list[Parts] = [(f"{name}=", file.whole(value)) for name, value in items.items()]
        return found, frozenset(items)
    return [("**", file.whole(kwargs))], None


def comma_separated(groups: Sequence[Parts]) -> tuple[Part, ...]:
    """Arguments with commas between them."""
    parts: list[Part] = []
    for group in groups:
        if parts:
            parts.append(", ")
        parts += group
    return tuple(parts)
