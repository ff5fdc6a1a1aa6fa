"""Pins of kombu, billiard, vine and click that are older than what the shim needs."""

from __future__ import annotations

from collections.abc import Iterator

from taskmq_migrate.dependencies import too_old
from taskmq_migrate.document import Document
from taskmq_migrate.model import Example, Kind, Page, Site
from taskmq_migrate.requirementlists import configured, lines
from taskmq_migrate.rule import TextRule

__all__ = ["RULE"]


class OldPins(TextRule):
    id = "TMQ007"
    title = "pins of kombu, billiard, vine and click that are too old are marked"
    kinds = frozenset({Kind.REQUIREMENTS, Kind.INI})
    words = ("kombu", "billiard", "vine", "click")
    page = Page(
        why="Programs pin these beside Celery. With a version that the shim cannot use, nothing "
        "can be installed.",
        risk="Which newer version suits the program has to be tried: nothing is changed.",
        examples=(
            Example(
                "requirements.txt",
                before="celery==4.4.7\nkombu==4.6.11\nvine>=5\n",
                after="celery==4.4.7\n"
                "# TODO(taskmq-migrate TMQ007): taskmq-celery needs kombu>=5.5: loosen "
                "kombu==4.6.11\nkombu==4.6.11\nvine>=5\n",
            ),
            Example(
                "setup.cfg",
                before="[options]\ninstall_requires =\n    celery\n    vine==1.3.0\n",
                after="[options]\ninstall_requires =\n    celery\n"
                "    # TODO(taskmq-migrate TMQ007): taskmq-celery needs vine>=5.1: loosen "
                "vine==1.3.0\n    vine==1.3.0\n",
            ),
        ),
    )

    def sites(self, file: Document) -> Iterator[Site]:
        if "celery" not in file.text.lower():
            return  # pinned for another reason
        found = lines(file) if file.kind is Kind.REQUIREMENTS else configured(file)
        for requirement, span in found:
            why = too_old(requirement)
            if why:
                yield file.mark(span, why)


RULE = OldPins()
