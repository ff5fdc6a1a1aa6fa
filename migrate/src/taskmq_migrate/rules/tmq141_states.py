"""States of jobs: ``celery.states``, and what the state of a handle is compared with."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Edit, Example, Page, Safety, Site, Target
from taskmq_migrate.names import literal_text
from taskmq_migrate.native.handles import is_handle
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

PREFIX = "celery.states."
STATES = {
    "SUCCESS": "SUCCEEDED",
    "FAILURE": "FAILED",
    "STARTED": "RUNNING",
    "RETRY": "RETRYING",
    "REVOKED": "REVOKED",
}
WHY_NOT = {
    "PENDING": "a job that is stored is QUEUED, WAITING or RETRYING; one that is not, UNKNOWN",
    "RECEIVED": "a job that a worker has is RUNNING",
}
OTHERS = "the states of the engine are those of taskmq.JobState"


class States(PythonRule):
    id = "TMQ141"
    title = "states of Celery's become those of the engine"
    targets = frozenset({Target.NATIVE})
    words = ("elery", "taskmq", "state")
    page = Page(
        why="The states of a job have names of their own, and there is none for an id that nobody "
        "knows. A member of taskmq.JobState equals its name.",
        risk="A constant of celery.states that is not compared with a handle's state may be "
        "compared with what Celery has stored: it is converted with --unsafe. A state that goes "
        "elsewhere, such as into an answer, is reported: whoever reads that sees other names.",
        examples=(
            Example(
                "poll.py",
                before="from celery import states\nfrom shop.app import app\n\n\n"
                "def is_done(job_id):\n    result = app.AsyncResult(job_id)\n"
                '    return result.status in ("SUCCESS", "FAILURE") or '
                "result.state == states.REVOKED\n",
                after="from taskmq import JobState\nfrom shop.app import app\n\n\n"
                "def is_done(job_id):\n    result = app.AsyncResult(job_id)\n"
                '    return result.state in ("SUCCEEDED", "FAILED") or '
                "result.state == JobState.REVOKED\n",
                others={"shop/app.py": 'from celery import Celery\n\napp = Celery("shop")\n'},
            ),
            Example(
                "ready.py",
                before="from celery import states\n\n\n"
                "def is_new(row):\n    return row.status == states.PENDING\n",
                after="from celery import states\n\n\n"
                "def is_new(row):\n"
                "    # TODO(taskmq-migrate TMQ141): PENDING: a job that is stored is QUEUED, "
                "WAITING or RETRYING; one that is not, UNKNOWN\n"
                "    return row.status == states.PENDING\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for node in file.references():
            names = [each for each in file.names(node) if each.startswith(PREFIX)]
            if names:
                yield self._constant(file, node, names[0].removeprefix(PREFIX))
        for attribute in file.nodes(cst.Attribute):
            if attribute.attr.value in {"state", "status"} and is_handle(file, attribute.value):
                yield from self._asked(file, attribute)

    def _constant(self, file: PythonFile, node: cst.BaseExpression, name: str) -> Site:
        full = f"taskmq.JobState.{STATES[name]}" if name in STATES else ""
        if name == "READY_STATES":
            full = "taskmq.states.TERMINAL"
        if not full:
            return file.mark_at(node, f"{name}: {WHY_NOT.get(name, OTHERS)}")
        owner = "taskmq.JobState" if name in STATES else full
        text, imports = file.import_as(owner, node)
        return file.convert_at(
            node,
            f"{name} is {full}",
            file.replace(file.span(node), text + full.removeprefix(owner)),
            imports=imports,
            released=(node,),
            safety=None if _is_of_handle(file, node) else Safety.UNSAFE,
        )

    def _asked(self, file: PythonFile, attribute: cst.Attribute) -> Iterator[Site]:
        compared = _compared(file, attribute)
        if compared is None and attribute.attr.value == "status":
            edit = file.swap(attribute.attr, "state")
            yield file.convert_at(attribute, "the state", edit, safety=Safety.UNSAFE)
        elif compared is None:
            yield file.report_at(attribute, f"state: {OTHERS}")
        if compared is None:
            return
        edits: list[Edit] = []
        for each in compared:
            name = literal_text(each)
            if name in WHY_NOT:
                yield file.mark_at(attribute, f"{name}: {WHY_NOT[name]}")
                return
            if isinstance(each, cst.SimpleString) and name in STATES and STATES[name] != name:
                edits.append(file.swap(each, f"{each.quote}{STATES[name]}{each.quote}"))
        if attribute.attr.value == "status":
            edits.append(file.swap(attribute.attr, "state"))
        if edits:
            yield file.convert_at(attribute, "a state of the engine's", *edits)


def _compared(file: PythonFile, state: cst.Attribute) -> list[cst.BaseExpression] | None:
    """What a state is compared with; None if it is used otherwise."""
    around = file.parent(state)
    if not isinstance(around, cst.Comparison) or around.left is not state:
        return None
    if len(around.comparisons) != 1:
        return None
    other = around.comparisons[0].comparator
    if isinstance(other, cst.Tuple | cst.List | cst.Set):
        return [each.value for each in other.elements]
    return [other]


def _is_of_handle(file: PythonFile, constant: cst.BaseExpression) -> bool:
    """Whether a constant is compared with the state of a handle."""
    comparison = file.enclosing(constant, cst.Comparison)
    left = comparison.left if comparison is not None else None
    return isinstance(left, cst.Attribute) and is_handle(file, left.value)


RULE = States()
