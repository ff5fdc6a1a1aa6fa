"""The report as one HTML file: the numbers, and each change side by side."""

from __future__ import annotations

import html
from collections.abc import Iterator
from difflib import SequenceMatcher
from importlib.resources import files

from taskmq_migrate.engine import Finding
from taskmq_migrate.project import Change, Result

from .summary import FileRow, rows, totals

__all__ = ["as_html"]

CONTEXT = 4
SEGMENTS = ("converted", "marked", "unsafe", "reported")


def as_html(result: Result, title: str) -> str:
    """A page of its own: styles inside, no scripts, nothing fetched."""
    style = files("taskmq_migrate.reports").joinpath("page.css").read_text("utf-8")
    changes = {each.path: each for each in result.changes}
    found: dict[str, list[Finding]] = {}
    for each in result.findings:
        found.setdefault(each.path, []).append(each)
    table = rows(result)
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{html.escape(title)}</title><style>{style}</style></head><body>",
        f"<header><h1>{html.escape(title)}</h1>{_numbers(totals(result))}</header>",
        _contents(table),
        "<main>",
        *(_file(row, changes.get(row.path), found.get(row.path, [])) for row in table),
        "</main></body></html>\n",
    ]
    return "\n".join(parts)


def _numbers(numbers: dict[str, int]) -> str:
    cards = [
        ("files seen", numbers["files_seen"], ""),
        ("changed", numbers["files_changed"], ""),
        ("failed", numbers["files_failed"], "failed" if numbers["files_failed"] else ""),
        ("sites", numbers["sites_found"], ""),
        *((name, numbers[f"sites_{name}"], name) for name in SEGMENTS),
    ]
    shown = "".join(
        f'<div class="card {kind}"><b>{number:,}</b><span>{name}</span></div>'
        for name, number, kind in cards
    )
    total = numbers["sites_found"] or 1
    bar = "".join(
        f'<i class="{name}" style="width:{100 * numbers[f"sites_{name}"] / total:.2f}%"></i>'
        for name in SEGMENTS
    )
    return f'<div class="cards">{shown}</div><div class="bar">{bar}</div>'


def _contents(table: list[FileRow]) -> str:
    lines = "".join(
        f'<tr><td><a href="#{_anchor(row.path)}">{html.escape(row.path)}</a></td>'
        f"<td>{row.converted or ''}</td><td>{row.marked or ''}</td>"
        f"<td>{row.unsafe or ''}</td><td>{row.reported or ''}</td></tr>"
        for row in table
    )
    head = "<tr><th>file</th><th>converted</th><th>marked</th><th>unsafe</th><th>reported</th></tr>"
    return f"<nav><table>{head}{lines}</table></nav>"


def _anchor(path: str) -> str:
    return "f-" + "".join(each if each.isalnum() else f"-{ord(each):x}-" for each in path)


def _file(row: FileRow, change: Change | None, findings: list[Finding]) -> str:
    notes = "".join(
        f'<li class="{each.status.value}"><code>{each.line}</code> <b>{each.rule}</b> '
        f"{html.escape(each.message)}</li>"
        for each in findings
    )
    error = f'<p class="error">{html.escape(row.error)}</p>' if row.error else ""
    body = _side_by_side(change) if change is not None else ""
    return (
        f'<section id="{_anchor(row.path)}"><h2>{html.escape(row.path)}</h2>'
        f"{error}<ul>{notes}</ul>{body}</section>"
    )


def _side_by_side(change: Change) -> str:
    before = change.before.decode("utf-8", "replace").splitlines()
    after = change.after.decode("utf-8", "replace").splitlines()
    groups = SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(CONTEXT)
    lines = '<tr class="gap"><td colspan="4">⋯</td></tr>'.join(
        "".join(_row(*each) for each in _pairs(group, before, after)) for group in groups
    )
    return f'<div class="diff"><table>{lines}</table></div>'


Row = tuple[str, int | None, str, int | None, str]


def _pairs(
    group: list[tuple[str, int, int, int, int]], before: list[str], after: list[str]
) -> Iterator[Row]:
    for tag, a1, a2, b1, b2 in group:
        for offset in range(max(a2 - a1, b2 - b1)):
            left, right = a1 + offset, b1 + offset
            old = before[left] if left < a2 else None
            new = after[right] if right < b2 else None
            shown_old, shown_new = html.escape(old or ""), html.escape(new or "")
            if tag == "replace" and old is not None and new is not None:
                shown_old, shown_new = _words(old, new)
            yield (
                tag,
                left + 1 if old is not None else None,
                shown_old,
                right + 1 if new is not None else None,
                shown_new,
            )


def _words(old: str, new: str) -> tuple[str, str]:
    """Both lines, with what differs between them stressed."""
    left, right = [], []
    for tag, a1, a2, b1, b2 in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        one, other = html.escape(old[a1:a2]), html.escape(new[b1:b2])
        left.append(one if tag == "equal" or not one else f"<mark>{one}</mark>")
        right.append(other if tag == "equal" or not other else f"<mark>{other}</mark>")
    return "".join(left), "".join(right)


def _row(tag: str, left: int | None, old: str, right: int | None, new: str) -> str:
    left_class = "" if tag == "equal" else ("old" if left is not None else "none")
    right_class = "" if tag == "equal" else ("new" if right is not None else "none")
    return (
        f'<tr><td class="n">{left or ""}</td><td class="{left_class}">{old}</td>'
        f'<td class="n">{right or ""}</td><td class="{right_class}">{new}</td></tr>'
    )
