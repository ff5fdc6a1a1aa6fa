"""A set of edits that do not contradict each other, and the text that they make."""

from __future__ import annotations

from dataclasses import dataclass, field

from .model import Edit, Span

__all__ = ["EditTree"]


@dataclass
class _Node:
    edit: Edit
    inside: list[list[_Node]] = field(default_factory=list)  # for each part that is a span


def _overlap(one: Edit, other: Edit) -> bool:
    """Whether two edits touch the same text. Insertions at an edge do not."""
    if one.start == one.end:
        return other.start < one.start < other.end
    if other.start == other.end:
        return one.start < other.start < one.end
    return one.start < other.end and other.start < one.end


def _kept(edit: Edit) -> list[Span]:
    return [part for part in edit.parts if isinstance(part, Span)]


def _part_around(outer: Edit, inner: Edit) -> int | None:
    """Which kept part of the outer edit holds the inner one."""
    for number, part in enumerate(_kept(outer)):
        if part.start <= inner.start and inner.end <= part.end:
            return number
    return None


class EditTree:
    """Edits of one text, nested where one keeps what the other changes."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._top: list[_Node] = []

    def __bool__(self) -> bool:
        return bool(self._top)

    def add(self, edits: tuple[Edit, ...]) -> bool:
        """Take all of these edits; or none, and say False, if one contradicts an earlier one."""
        before = self._copy(self._top)
        for edit in edits:
            if not self._insert(self._top, edit):
                self._top = before
                return False
        return True

    def _copy(self, nodes: list[_Node]) -> list[_Node]:
        return [_Node(each.edit, [self._copy(part) for part in each.inside]) for each in nodes]

    def _insert(self, siblings: list[_Node], edit: Edit) -> bool:
        touched = [each for each in siblings if _overlap(each.edit, edit)]
        if len(touched) == 1:
            part = _part_around(touched[0].edit, edit)
            if part is not None:
                return self._insert(touched[0].inside[part], edit)
        places = [_part_around(edit, each.edit) for each in touched]
        if None in places:
            return False
        node = _Node(edit, [[] for _ in _kept(edit)])
        for place, each in zip(places, touched, strict=True):
            if place is not None:
                node.inside[place].append(each)
                siblings.remove(each)
        siblings.append(node)
        return True

    def render(self) -> str:
        """The text with all edits made."""
        return self._render(self._top, Span(0, len(self._text)))

    def _render(self, nodes: list[_Node], span: Span) -> str:
        out: list[str] = []
        position = span.start
        for node in sorted(nodes, key=lambda each: (each.edit.start, each.edit.end)):
            out.append(self._text[position : node.edit.start])
            inside = iter(node.inside)
            out += [
                part if isinstance(part, str) else self._render(next(inside), part)
                for part in node.edit.parts
            ]
            position = node.edit.end
        out.append(self._text[position : span.end])
        return "".join(out)
