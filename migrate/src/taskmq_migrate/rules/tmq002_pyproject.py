"""``celery`` in the requirement lists of pyproject.toml: PEP 621, groups, PDM, uv, Hatch."""

from __future__ import annotations

from collections.abc import Iterator

import tomlkit
from tomlkit.items import String

from taskmq_migrate.dependencies import SHIM, SHIM_VERSIONS, find_celery
from taskmq_migrate.model import Example, Page, Site, Span
from taskmq_migrate.requirementlists import arrays
from taskmq_migrate.rule import TomlRule
from taskmq_migrate.tomlfile import TomlFile

__all__ = ["RULE"]


class Pyproject(TomlRule):
    id = "TMQ002"
    title = "celery in the lists of pyproject.toml becomes taskmq-celery"
    words = ("celery", "Celery")
    page = Page(
        why="The shim is installed instead of Celery, never beside it. Lists of requirements are "
        "rewritten wherever build tools keep them: project.dependencies and its optional ones, "
        "dependency-groups, and the tables of uv, PDM and Hatch.",
        risk="Lock files are not touched: lock again afterwards.",
        examples=(
            Example(
                "pyproject.toml",
                before='[project]\nname = "shop"\ndependencies = [\n    '
                '"celery[redis]>=5.3",  # queue\n    "django",\n]\n',
                after='[project]\nname = "shop"\ndependencies = [\n    '
                f'"{SHIM}[redis]{SHIM_VERSIONS}",  # queue\n    "django",\n]\n',
            ),
        ),
    )

    def sites(self, file: TomlFile) -> Iterator[Site]:
        for edit in file.changed(self._change):
            yield file.convert(Span(edit.start, edit.end), f"celery becomes {SHIM}", edit)

    def _change(self, data: tomlkit.TOMLDocument) -> None:
        for array in arrays(data):
            for number, item in enumerate(array):
                if isinstance(item, String) and (celery := find_celery(str(item))) is not None:
                    text = celery.as_shim()
                    literal = item.as_string().startswith("'") and "'" not in text
                    array[number] = tomlkit.string(text, literal=literal)


RULE = Pyproject()
