"""Names of old Celery that nothing has taken the place of."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Example, Page, Site
from taskmq_migrate.movednames import GONE, gone
from taskmq_migrate.names import dotted
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]


class GoneNames(PythonRule):
    id = "TMQ022"
    title = "imports that Celery 5 has no successor for are marked"
    words = tuple(sorted({each.partition(".")[0] for each in GONE}))
    strict_words = True
    page = Page(
        why="These modules and classes went with Celery 4 or 5 and have no drop-in successor. The "
        "marker says what people use instead.",
        risk="Nothing is changed.",
        examples=(
            Example(
                "mail.py",
                before="from celery.utils.mail import send_mail\n",
                after="# TODO(taskmq-migrate TMQ022): celery.utils.mail Celery sends no mail any "
                "more: use the signal task_failure\nfrom celery.utils.mail import send_mail\n",
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for statement in file.nodes(cst.ImportFrom):
            module = file.resolver.imported_module(statement)
            names = (
                [module]
                if isinstance(statement.names, cst.ImportStar)
                else [f"{module}.{dotted(each.name)}" for each in statement.names]
            )
            reasons = sorted({why for each in names if (why := gone(each))})
            if reasons:
                yield file.mark_at(statement, "; ".join(reasons))
        for plain in file.nodes(cst.Import):
            for alias in plain.names:
                why = gone(dotted(alias.name))
                if why:
                    yield file.mark_at(plain, why)


RULE = GoneNames()
