"""Packages that require the distribution ``celery`` themselves."""

from __future__ import annotations

from collections.abc import Iterator

from taskmq_migrate.dependencies import BRINGS_CELERY, parsed
from taskmq_migrate.document import Document
from taskmq_migrate.model import Example, Kind, Page, Safety, Site
from taskmq_migrate.requirementlists import configured, lines
from taskmq_migrate.rule import TextRule

__all__ = ["RULE"]


class BringsCelery(TextRule):
    id = "TMQ008"
    title = "packages that bring the real Celery back are named"
    safety = Safety.REPORT_ONLY
    kinds = frozenset({Kind.REQUIREMENTS, Kind.INI})
    words = tuple(sorted(BRINGS_CELERY))
    page = Page(
        why="flower, django-celery-beat and others require the distribution celery. Installed by "
        "themselves they bring the real one, over the shim. Install the provider first "
        "(taskmq_celery/provider): a distribution named celery without code, which satisfies them.",
        risk="Nothing is changed.",
        examples=(
            Example("requirements.txt", before="flower>=2\ndjango-celery-beat\n", reports=2),
            Example(
                "setup.cfg",
                before="[options]\ninstall_requires =\n    celery\n    flower\n",
                reports=1,
            ),
        ),
    )

    def sites(self, file: Document) -> Iterator[Site]:
        found = lines(file) if file.kind is Kind.REQUIREMENTS else configured(file)
        for requirement, span in found:
            name = parsed(requirement)
            if name is not None and name[0] in BRINGS_CELERY:
                why = "requires the distribution celery: install the provider of the shim too"
                yield file.report(span, f"{name[0]} {why}")


RULE = BringsCelery()
