"""Settings that have had no effect for many releases."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Example, Page, Safety, Site
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule
from taskmq_migrate.settingnames import GONE

__all__ = ["RULE"]


class GoneSettings(PythonRule):
    id = "TMQ033"
    title = "settings that went with Celery 3 are named"
    safety = Safety.REPORT_ONLY
    words = tuple(sorted(GONE))
    strict_words = True
    page = Page(
        why="They are accepted and ignored. The report says what is used instead.",
        risk="Nothing is changed.",
        examples=(
            Example("settings.py", before="CELERY_SEND_TASK_ERROR_EMAILS = True\n", reports=1),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for name in file.nodes(cst.Name):
            target = file.parent(name)
            is_target = isinstance(target, cst.AssignTarget) and target.target is name
            if name.value in GONE and (is_target or isinstance(target, cst.AnnAssign)):
                yield file.report_at(name, f"{name.value} has no effect: {GONE[name.value]}")


RULE = GoneSettings()
