"""``celery`` in setup.cfg and tox.ini."""

from __future__ import annotations

from collections.abc import Iterator

from taskmq_migrate.dependencies import SHIM, SHIM_VERSIONS, find_celery
from taskmq_migrate.document import Document
from taskmq_migrate.model import Example, Kind, Page, Site
from taskmq_migrate.requirementlists import configured
from taskmq_migrate.rule import TextRule

__all__ = ["RULE"]


class SetupCfg(TextRule):
    id = "TMQ004"
    title = "celery in setup.cfg and tox.ini becomes taskmq-celery"
    kinds = frozenset({Kind.INI})
    words = ("celery", "Celery")
    page = Page(
        why="The shim is installed instead of Celery, never beside it.",
        risk="None. Only install_requires and its like, extras and the deps of tox are read.",
        examples=(
            Example(
                "setup.cfg",
                before="[options]\ninstall_requires =\n    celery[redis]>=5.2,<6\n    django\n\n"
                "[options.extras_require]\ntest = celery[pytest]\n",
                after=f"[options]\ninstall_requires =\n    {SHIM}[redis]{SHIM_VERSIONS}\n"
                f"    django\n\n[options.extras_require]\ntest = {SHIM}[pytest]{SHIM_VERSIONS}\n",
            ),
        ),
    )

    def sites(self, file: Document) -> Iterator[Site]:
        for requirement, span in configured(file):
            celery = find_celery(requirement)
            if celery is not None:
                edit = file.replace(span, celery.as_shim())
                yield file.convert(span, f"{requirement} becomes {SHIM}", edit)


RULE = SetupCfg()
