"""A file as rules see it: its text, where things are, and the sites that are made of it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property

from .facts import Facts
from .model import Action, Edit, Kind, NewImport, Safety, Site, Span

__all__ = ["Document"]

LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|$)")


class Document:
    """A text file of a project."""

    def __init__(self, path: str, kind: Kind, text: str, facts: Facts) -> None:
        """``path`` is relative to the root of the run, with slashes."""
        self.path = path
        self.kind = kind
        self.text = text
        self.facts = facts

    # ----------------------------------------------------------------------------- places

    @cached_property
    def line_starts(self) -> list[int]:
        starts = [0]
        starts += [each.end() for each in re.finditer(r"\r\n|\r|\n", self.text)]
        return starts

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line_start(self, offset: int) -> int:
        return self.line_starts[bisect_right(self.line_starts, offset) - 1]

    def lines(self) -> Iterator[Span]:
        """Each line without its end."""
        for number, start in enumerate(self.line_starts):
            last = number + 1 == len(self.line_starts)
            end = len(self.text) if last else self.line_starts[number + 1]
            yield Span(start, start + len(self.text[start:end].rstrip("\r\n")))

    @cached_property
    def newline(self) -> str:
        """The line end that the file uses (its first one)."""
        found = re.search(r"\r\n|\r|\n", self.text)
        return found.group() if found else "\n"

    def source(self, span: Span) -> str:
        return self.text[span.start : span.end]

    def statement_start(self, offset: int) -> int:
        """Where the line begins that a comment about ``offset`` can stand above.

        Lines that a backslash joins are one.
        """
        start = self.line_start(offset)
        while start > 0 and self.text[:start].rstrip("\r\n").endswith("\\"):
            start = self.line_start(start - 1)
        return start

    def comments(self) -> list[Span]:
        """The comments that an edit may not drop."""
        return []

    # ------------------------------------------------------------------------------ sites

    def convert(
        self,
        span: Span,
        message: str,
        *edits: Edit,
        imports: tuple[NewImport, ...] = (),
        released: tuple[Span, ...] = (),
        safety: Safety | None = None,
    ) -> Site:
        """A site that these edits convert."""
        return Site(Action.CONVERT, span, message, edits, imports, released, safety)

    def mark(self, span: Span, message: str) -> Site:
        """A site that is left as it is, with a marker above it."""
        return Site(Action.MARK, span, message)

    def report(self, span: Span, message: str) -> Site:
        """A site that the report names, and nothing else."""
        return Site(Action.REPORT, span, message)

    def replace(self, span: Span, *parts: str | Span) -> Edit:
        """An edit: new text and kept spans in place of a span."""
        return Edit(span.start, span.end, parts)

    def insert(self, offset: int, text: str) -> Edit:
        return Edit(offset, offset, (text,))
