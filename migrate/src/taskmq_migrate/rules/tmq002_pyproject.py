"""``celery`` in pyproject.toml: PEP 621, dependency groups, Poetry, PDM, uv; and in a Pipfile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tomlkit
from tomlkit.items import Array, Item, String

from taskmq_migrate.dependencies import SHIM, SHIM_VERSIONS, find_celery
from taskmq_migrate.model import Example, Page, Site, Span, Target
from taskmq_migrate.rule import TomlRule
from taskmq_migrate.tomlfile import TomlFile

__all__ = ["RULE"]


class Pyproject(TomlRule):
    id = "TMQ002"
    title = "celery in pyproject.toml becomes taskmq-celery"
    targets = frozenset({Target.SHIM})
    words = ("celery", "Celery")
    page = Page(
        why="The shim is installed instead of Celery, never beside it. Lists of requirements are "
        "rewritten wherever build tools keep them: project.dependencies and its optional ones, "
        "dependency-groups, and the tables of uv and PDM.",
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
        edits = file.changed(lambda data: self._change(data))
        for edit in edits:
            yield file.convert(Span(edit.start, edit.end), f"celery becomes {SHIM}", edit)

    def _change(self, data: tomlkit.TOMLDocument) -> None:
        for array in _arrays(data):
            for number, item in enumerate(array):
                if isinstance(item, String) and (celery := find_celery(str(item))) is not None:
                    array[number] = celery.as_shim()


def _arrays(data: Any) -> Iterator[Array]:
    """Every list of requirements that a tool reads."""
    project = data.get("project", {})
    groups = [project.get("dependencies"), *project.get("optional-dependencies", {}).values()]
    groups += [*data.get("dependency-groups", {}).values()]
    tool = data.get("tool", {})
    uv = tool.get("uv", {})
    groups += [
        uv.get(each)
        for each in ("dev-dependencies", "constraint-dependencies", "override-dependencies")
    ]
    groups += [*tool.get("pdm", {}).get("dev-dependencies", {}).values()]
    groups += [data.get("build-system", {}).get("requires")]
    for each in groups:
        if isinstance(each, Array) and isinstance(each, Item):
            yield each


RULE = Pyproject()
