"""The comments that say what was left to people: ``# TODO(taskmq-migrate TMQ042): why``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .document import Document
from .model import Edit, Kind, Span
from .pythonfile import PythonFile

__all__ = ["clean", "is_marked", "marker_edit", "markers"]

MARKER = re.compile(r"[ \t]*#[ \t]TODO\(taskmq-migrate (TMQ\d{3})\):")


def is_marked(file: Document, offset: int, rule: str) -> bool:
    """Whether the lines above a statement already have the marker of a rule."""
    start = file.statement_start(offset)
    while start > 0:
        above = file.line_start(start - 1)
        found = MARKER.match(file.text, above, start)
        if found is None:
            return False
        if found.group(1) == rule:
            return True
        start = above
    return False


def marker_edit(file: Document, offset: int, rule: str, message: str) -> Edit:
    """Puts the marker of a rule on a line of its own, above a statement, indented like it."""
    start = file.statement_start(offset)
    line = file.text[start:]
    indent = line[: len(line) - len(line.lstrip(" \t\f"))].replace("\f", "")
    if file.kind is Kind.MAKEFILE:
        indent = ""  # a comment behind a tab would go to the shell
    text = f"{indent}# TODO(taskmq-migrate {rule}): {message}{file.newline}"
    return file.insert(start, text)


def markers(file: Document) -> list[tuple[str, Span]]:
    """The markers in a file, with the lines that hold them."""
    comments: set[int] | None = None
    if isinstance(file, PythonFile):
        comments = {file.line_start(each.start) for each in file.comments()}
    found = []
    for line in file.lines():
        match = MARKER.match(file.text, line.start, line.end)
        if match is not None and (comments is None or line.start in comments):
            found.append((match.group(1), line))
    return found


def clean(file: Document) -> Iterable[Edit]:
    """Takes every marker out, with its line."""
    for _, line in markers(file):
        end = line.end
        end += len(file.newline) if file.text.startswith(file.newline, end) else 0
        yield Edit(line.start, end, ())
