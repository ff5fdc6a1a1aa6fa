"""``celery`` in requirements and constraints files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from taskmq_migrate.dependencies import SHIM, SHIM_VERSIONS, find_celery
from taskmq_migrate.document import Document
from taskmq_migrate.model import Example, Kind, Page, Site
from taskmq_migrate.requirementlists import lines
from taskmq_migrate.rule import TextRule

__all__ = ["RULE"]

DIRECT = re.compile(
    r"(?i)^(?:-e\s+|--editable[ =])?.*(?:\bcelery(?:\[.*\])?\s*@|[/#&]egg=celery\b|/celery\.git)"
)
BY_HAND = f"an address or hashes pin Celery itself: require {SHIM}{SHIM_VERSIONS} by hand"


class Requirements(TextRule):
    id = "TMQ001"
    title = "celery in requirements files becomes taskmq-celery"
    kinds = frozenset({Kind.REQUIREMENTS})
    words = ("celery", "Celery")
    page = Page(
        why="The shim is installed instead of Celery, never beside it. Extras and environment "
        "markers stay; the version becomes that of the shim.",
        risk="None in the file. Packages that require the distribution celery themselves, such as "
        "flower, bring the real Celery back unless the provider is installed too: see TMQ008.",
        examples=(
            Example(
                "requirements/base.txt",
                before="celery[redis]==5.3.6  # the queue\ndjango>=4.2\n",
                after=f"{SHIM}[redis]{SHIM_VERSIONS}  # the queue\ndjango>=4.2\n",
            ),
            Example(
                "requirements.txt",
                before="celery @ https://example.org/celery-5.3.6.tar.gz\n",
                after=f"# TODO(taskmq-migrate TMQ001): {BY_HAND}\n"
                "celery @ https://example.org/celery-5.3.6.tar.gz\n",
            ),
        ),
    )

    def sites(self, file: Document) -> Iterator[Site]:
        for requirement, span in lines(file):
            celery = find_celery(requirement)
            if celery is not None:
                edit = file.replace(span, celery.as_shim())
                yield file.convert(span, f"{requirement} becomes {SHIM}", edit)
            elif self._pins(requirement):
                yield file.mark(span, BY_HAND)

    def _pins(self, requirement: str) -> bool:
        bare = re.split(r"\s+--hash|\s*\\$", requirement)[0]
        return bool(DIRECT.match(requirement)) or (
            bare != requirement and find_celery(bare) is not None
        )


RULE = Requirements()
