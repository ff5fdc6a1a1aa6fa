"""Doctor: pickled arguments and results."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Example, Page, Safety, Site
from taskmq_migrate.names import literal_text
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

SETTINGS = ("task_serializer", "result_serializer", "accept_content", "result_accept_content")


class Pickle(PythonRule):
    id = "TMQ901"
    title = "arguments or results travel as pickles"
    safety = Safety.REPORT_ONLY
    words = ("pickle",)
    doctor = True
    page = Page(
        why="Who can write to the broker can run code in a worker that accepts pickles, and a "
        "class "
        "that changed can no longer be read. The shim takes them where accept_content says so; the "
        "engine never does.",
        risk="None: nothing is changed.",
        examples=(
            Example(
                "config.py",
                before="from celery import shared_task\n\n"
                'accept_content = ["json", "pickle"]\n\n\n'
                '@shared_task(serializer="pickle")\ndef f(x): ...\n',
                reports=2,
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for kind in (cst.SimpleString, cst.ConcatenatedString):
            for node in file.nodes(kind):
                name = _said_of(file, node) if _is_pickle(node) else ""
                if name:
                    yield file.report_at(node, f"{name}: pickles run code of whoever writes them")


def _is_pickle(node: cst.BaseExpression) -> bool:
    return literal_text(node) in {"pickle", "application/x-python-serialize"}


def _said_of(file: PythonFile, node: cst.CSTNode) -> str:
    """The setting or option that a text is the value of, or a member of."""
    for around in file.ancestors(node):
        if isinstance(around, cst.Arg) and around.keyword is not None:
            return _setting(around.keyword.value)
        if isinstance(around, cst.DictElement):
            return _setting(literal_text(around.key) or "")
        if isinstance(around, cst.Assign):
            target = around.targets[0].target
            if isinstance(target, cst.Attribute):
                return _setting(target.attr.value)
            return _setting(target.value) if isinstance(target, cst.Name) else ""
        if not isinstance(around, cst.List | cst.Tuple | cst.Set | cst.Element):
            return ""
    return ""


def _setting(name: str) -> str:
    lower = name.lower()
    known = lower == "serializer" or any(lower.endswith(each) for each in SETTINGS)
    return name if known else ""


RULE = Pickle()
