"""Runs rules on one file until nothing changes: a pure step from bytes to bytes and findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .document import Document
from .editing import EditTree
from .facts import Facts
from .imports import DIRECTIVES, change_imports
from .markers import clean, is_marked, marker_edit
from .model import Action, Edit, Kind, NewImport, Safety, Site, Span, Status
from .problems import Unreadable
from .pythonfile import PythonFile
from .rule import AnyRule
from .textcoding import decode
from .tomlfile import TomlFile
from .yamlfile import YamlFile

__all__ = ["Finding", "Outcome", "open_document", "rewrite", "unmark"]

PASSES = 10
"""Rounds of edits that one file may take; edits that wait for others rarely need a third."""


@dataclass(frozen=True, order=True)
class Finding:
    """What became of one site."""

    path: str
    line: int
    column: int
    rule: str
    message: str
    status: Status


@dataclass(frozen=True)
class Outcome:
    """What became of one file. ``after`` is None where it stays as it is."""

    path: str
    after: bytes | None = None
    findings: tuple[Finding, ...] = ()
    error: str = ""


@dataclass
class _Step:
    """One round over a file."""

    tree: EditTree
    converted: list[Finding] = field(default_factory=list)
    left: list[tuple[AnyRule, Site]] = field(default_factory=list)


def open_document(path: str, kind: Kind, text: str, facts: Facts) -> Document:
    """The file as its kind; raises `Unreadable`."""
    if kind is Kind.PYTHON:
        return PythonFile(path, text, facts)
    if kind is Kind.TOML:
        return TomlFile(path, text, facts)
    if kind is Kind.YAML:
        return YamlFile(path, text, facts)
    return Document(path, kind, text, facts)


def rewrite(
    path: str, kind: Kind, raw: bytes, facts: Facts, rules: Sequence[AnyRule], unsafe: bool
) -> Outcome:
    """Run every rule for this kind of file. A file that cannot be read is an outcome too."""
    fitting = [each for each in rules if kind in each.kinds]
    try:
        text, coding = decode(raw, kind)
        settled, findings = _settle(open_document(path, kind, text, facts), fitting, unsafe)
        after = coding.encode(settled)
    except Unreadable as problem:
        return Outcome(path, error=str(problem))
    return Outcome(path, after if after != raw else None, tuple(sorted(findings)))


def unmark(path: str, kind: Kind, raw: bytes) -> Outcome:
    """Take the markers out of a file, and do nothing else."""
    try:
        text, coding = decode(raw, kind)
        file = open_document(path, kind, text, Facts())
        tree = EditTree(text)
        tree.add(tuple(clean(file)))
        after = coding.encode(tree.render())
    except Unreadable as problem:
        return Outcome(path, error=str(problem))
    return Outcome(path, after if after != raw else None)


def _settle(file: Document, rules: Sequence[AnyRule], unsafe: bool) -> tuple[str, list[Finding]]:
    converted: list[Finding] = []
    for _ in range(PASSES):
        step = _round(file, rules, unsafe)
        if not step.tree:
            text, left = _finish(file, step)
            return text, converted + left
        converted += step.converted
        text = step.tree.render()
        names = ", ".join(sorted({each.rule for each in step.converted}))
        try:
            file = open_document(file.path, file.kind, text, file.facts)
        except Unreadable as problem:
            raise Unreadable(f"{names} would break it ({problem}): please report this") from None
    names = ", ".join(sorted({each.rule for each in step.converted}))
    raise Unreadable(f"{names} never came to an end: please report this")


def _round(file: Document, rules: Sequence[AnyRule], unsafe: bool) -> _Step:
    """Make all edits that do not contradict each other; the rest waits for the next round."""
    step = _Step(EditTree(file.text))
    wanted: list[NewImport] = []
    released: list[Span] = []
    for rule in rules:
        if rule.strict_words and not any(each in file.text for each in rule.words):
            continue
        for site in rule.sites(file):  # type: ignore[arg-type]  # its kinds say what it takes
            if site.action is not Action.CONVERT or (_is_unsafe(rule, site) and not unsafe):
                step.left.append((rule, site))
                continue
            comments = _dropped(file, site)
            if any(each.startswith(DIRECTIVES) for each in comments):
                why = "left as it is: a comment for a tool stands inside what would be replaced"
                step.left.append((rule, site.marked(why)))
            elif step.tree.add((*_above(file, site, comments), *site.edits)):
                step.converted.append(_finding(file, rule, site, Status.CONVERTED))
                wanted += site.imports
                released += site.released
            elif not step.tree:
                raise Unreadable(f"{rule.id} contradicts itself: please report this")
    if isinstance(file, PythonFile) and (wanted or released):
        change_imports(file, wanted, released, step.tree.add)
    return step


def _is_unsafe(rule: AnyRule, site: Site) -> bool:
    return (site.safety or rule.safety) is Safety.UNSAFE


def _dropped(file: Document, site: Site) -> list[str]:
    """The comments that the edits of a site take away."""
    if not any("#" in file.text[edit.start : edit.end] for edit in site.edits):
        return []
    return [
        file.source(comment)
        for comment in file.comments()
        if any(
            edit.start <= comment.start
            and comment.end <= edit.end
            and not any(
                isinstance(part, Span) and part.start <= comment.start and comment.end <= part.end
                for part in edit.parts
            )
            for edit in site.edits
        )
    ]


def _above(file: Document, site: Site, comments: Sequence[str]) -> tuple[Edit, ...]:
    """Puts comments on lines of their own above the statement that they stood in."""
    if not comments:
        return ()
    start = file.statement_start(min(edit.start for edit in site.edits))
    line = file.text[start:]
    indent = line[: len(line) - len(line.lstrip(" \t\f"))].replace("\f", "")
    return (file.insert(start, "".join(f"{indent}{each}{file.newline}" for each in comments)),)


def _finish(file: Document, step: _Step) -> tuple[str, list[Finding]]:
    """Put the markers in, once nothing else changes."""
    tree = EditTree(file.text)
    findings = []
    marked: set[tuple[str, int]] = set()
    for rule, site in step.left:
        if site.action is Action.MARK:
            status = Status.MARKED
            place = (rule.id, file.statement_start(site.span.start))
            if place not in marked and not is_marked(file, site.span.start, rule.id):
                tree.add((marker_edit(file, site.span.start, rule.id, site.message),))
            marked.add(place)
        else:
            status = Status.UNSAFE if site.action is Action.CONVERT else Status.REPORTED
        findings.append(_finding(file, rule, site, status))
    return tree.render(), findings


def _finding(file: Document, rule: AnyRule, site: Site, status: Status) -> Finding:
    line, column = file.position(site.span.start)
    return Finding(file.path, line, column, rule.id, site.message, status)
