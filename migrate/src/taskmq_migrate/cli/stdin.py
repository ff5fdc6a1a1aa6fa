"""One file through stdin and stdout, as editors do it."""

from __future__ import annotations

import sys

from taskmq_migrate.engine import Outcome, open_document, rewrite, unmark
from taskmq_migrate.facts import Facts
from taskmq_migrate.gather import gather
from taskmq_migrate.kinds import kind_of
from taskmq_migrate.model import Kind
from taskmq_migrate.problems import Refused, Unreadable
from taskmq_migrate.project import Run
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.textcoding import decode

__all__ = ["from_stdin"]


def from_stdin(plan: Run, name: str) -> tuple[bytes, Outcome]:
    """What was read, and what becomes of it. Nothing is known of other files."""
    raw = sys.stdin.buffer.read()
    kind = kind_of(name, raw.partition(b"\n")[0])
    if kind is None:
        raise Refused(f"{name} is no kind of file that is rewritten: pass --stdin-filename")
    if plan.clean_markers:
        return raw, unmark(name, kind, raw)
    return raw, rewrite(name, kind, raw, _own_facts(name, kind, raw), plan.rules, plan.unsafe)


def _own_facts(name: str, kind: Kind, raw: bytes) -> Facts:
    if kind is not Kind.PYTHON:
        return Facts()
    try:
        file = open_document(name, kind, decode(raw, kind)[0], Facts())
    except Unreadable:
        return Facts()
    return Facts([gather(file)]) if isinstance(file, PythonFile) else Facts()
