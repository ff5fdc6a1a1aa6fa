"""A YAML file: read with ruamel.yaml, which says where each value stands; edited in place."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from .document import Document
from .facts import Facts
from .model import Kind, Span
from .problems import Unreadable

__all__ = ["Scalar", "YamlFile"]


class Scalar:
    """A scalar value: the keys and indexes that lead to it, its text, and where it stands."""

    __slots__ = ("path", "span", "style", "value")

    def __init__(self, path: tuple[str | int, ...], value: str, span: Span, style: str) -> None:
        self.path = path
        self.value = value
        self.span = span
        self.style = style  # "", "'", '"', "|" or ">"


class YamlFile(Document):
    """A YAML stream of one or more documents."""

    def __init__(self, path: str, text: str, facts: Facts) -> None:
        super().__init__(path, Kind.YAML, text, facts)

    @cached_property
    def is_template(self) -> bool:
        """Whether it is a template that becomes YAML, as Helm has them."""
        if "{{" not in self.text:
            return False
        try:
            return not self.roots
        except Unreadable:
            return True

    @cached_property
    def roots(self) -> list[Node]:
        try:
            return [each for each in YAML(typ="rt").compose_all(self.text) if each is not None]
        except YAMLError as error:
            mark: Any = getattr(error, "problem_mark", None)
            line = f"line {mark.line + 1}" if mark is not None else "it"
            raise Unreadable(f"{line} is no YAML: {getattr(error, 'problem', error)}") from None

    def scalars(self) -> Iterator[Scalar]:
        """Every scalar value, keys excluded, in the order of the file."""
        for root in self.roots:
            yield from self._walk(root, ())

    def _walk(self, node: Node, path: tuple[str | int, ...]) -> Iterator[Scalar]:
        if isinstance(node, ScalarNode):
            span = Span(node.start_mark.index, node.end_mark.index)
            yield Scalar(path, str(node.value), span, node.style or "")
        elif isinstance(node, SequenceNode):
            for number, each in enumerate(node.value):
                yield from self._walk(each, (*path, number))
        elif isinstance(node, MappingNode):
            for key, value in node.value:
                yield from self._walk(value, (*path, str(key.value)))

    def statement_start(self, offset: int) -> int:
        """The line of the innermost key or item around an offset, in block style."""
        best = self.line_start(offset)
        for start, span in self._entries:
            if span.start <= offset <= span.end:
                best = self.line_start(start)
        return best

    @cached_property
    def _entries(self) -> list[tuple[int, Span]]:
        """Each entry of a block mapping or sequence: where it begins, and what it covers."""
        found: list[tuple[int, Span]] = []

        def walk(node: Node) -> None:
            if isinstance(node, MappingNode):
                for key, value in node.value:
                    if not node.flow_style:
                        start = key.start_mark.index
                        found.append((start, Span(start, value.end_mark.index)))
                    walk(value)
            elif isinstance(node, SequenceNode):
                for each in node.value:
                    if not node.flow_style:
                        start = each.start_mark.index
                        found.append((start, Span(start, each.end_mark.index)))
                    walk(each)

        for root in self.roots:
            walk(root)
        return found
