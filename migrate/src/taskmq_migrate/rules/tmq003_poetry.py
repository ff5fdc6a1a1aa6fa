"""``celery`` in the tables of Poetry and Pixi, and in a Pipfile."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tomlkit.items import AbstractTable

from taskmq_migrate.dependencies import SHIM, SHIM_VERSIONS
from taskmq_migrate.model import Example, Page, Site, Span
from taskmq_migrate.requirementlists import tables
from taskmq_migrate.rule import TomlRule
from taskmq_migrate.tomlfile import TomlFile

__all__ = ["RULE"]

ENTRY = re.compile(
    r"""(?m)^(?P<key>[ \t]*["']?celery["']?)(?P<equals>[ \t]*=[ \t]*)(?P<value>[^\n\r]*)"""
)
VERSION = re.compile(r"""(?P<before>(?:^|version\s*=\s*))(?P<quote>["'])[^"'\n]*(?P=quote)""")
BY_HAND = f"a path or address pins Celery itself: require {SHIM} = '{SHIM_VERSIONS}' by hand"


class Poetry(TomlRule):
    id = "TMQ003"
    title = "celery in the tables of Poetry and in a Pipfile becomes taskmq-celery"
    words = ("celery", "Celery")
    page = Page(
        why="The shim is installed instead of Celery, never beside it. Extras and markers stay.",
        risk="Lock files are not touched: lock again afterwards.",
        examples=(
            Example(
                "pyproject.toml",
                before='[tool.poetry.dependencies]\npython = "^3.11"\n'
                'celery = { version = "^5.3", extras = ["redis"] }  # queue\n',
                after='[tool.poetry.dependencies]\npython = "^3.11"\n'
                f'{SHIM} = {{ version = "{SHIM_VERSIONS}", extras = ["redis"] }}  # queue\n',
            ),
            Example(
                "Pipfile",
                before='[packages]\ncelery = "*"\nredis = "*"\n',
                after=f'[packages]\n{SHIM} = "{SHIM_VERSIONS}"\nredis = "*"\n',
            ),
            Example(
                "Pipfile",
                before='[packages]\ncelery = { git = "https://example.org/celery.git" }\n',
                after=f"[packages]\n# TODO(taskmq-migrate TMQ003): {BY_HAND}\n"
                'celery = { git = "https://example.org/celery.git" }\n',
            ),
        ),
    )

    def sites(self, file: TomlFile) -> Iterator[Site]:
        wanted = sum("celery" in each for each in tables(file.data))
        for found in ENTRY.finditer(file.text):
            if not wanted or not self._is_package(file, found.start()):
                continue
            wanted -= 1
            span = Span(found.start("key"), found.end())
            value = VERSION.search(found["value"])
            if value is None or re.search(r"\b(git|path|url|file)\s*=", found["value"]):
                yield file.mark(span, BY_HAND)
                continue
            key = found["key"].replace("celery", SHIM)
            start = found.start("value")
            quote = value["quote"]
            yield file.convert(
                span,
                f"celery becomes {SHIM}",
                file.replace(Span(*found.span("key")), key),
                file.replace(
                    Span(start + value.start(), start + value.end()),
                    f"{value['before']}{quote}{SHIM_VERSIONS}{quote}",
                ),
            )

    def _is_package(self, file: TomlFile, offset: int) -> bool:
        """Whether the table around an entry is one of packages."""
        headers = re.findall(r"(?m)^[ \t]*\[([^\[\]\n]+)\]", file.text[:offset])
        if not headers:
            return False
        table: object = file.data
        for name in headers[-1].split("."):
            table = table.get(name.strip().strip("\"'")) if hasattr(table, "get") else None
        return isinstance(table, AbstractTable) and any(table == each for each in tables(file.data))


RULE = Poetry()
