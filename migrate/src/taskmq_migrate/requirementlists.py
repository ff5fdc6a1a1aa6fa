"""Where files keep lists of requirements, whatever tool reads them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tomlkit.items import AbstractTable, Array

from .document import Document
from .model import Span

__all__ = ["arrays", "configured", "lines", "tables"]

COMMENT = re.compile(r"(?:^|\s+)#.*$")
OPTIONS = re.compile(
    r"(?i)(install_requires|setup_requires|tests_require|deps|requires|requirements)$"
)
SECTION = re.compile(r"\[(.+)\]\s*$")
KEY = re.compile(r"([\w.-]+)\s*[=:]\s*")


def lines(file: Document) -> Iterator[tuple[str, Span]]:
    """The requirements of a requirements file, comments cut off."""
    for line in file.lines():
        body = COMMENT.sub("", file.source(line))
        requirement = body.strip()
        if requirement:
            start = line.start + len(body) - len(body.lstrip())
            yield requirement, Span(start, start + len(requirement))


def configured(file: Document) -> Iterator[tuple[str, Span]]:
    """The requirements of setup.cfg and tox.ini."""
    section, wanted = "", False
    for line in file.lines():
        text = file.source(line)
        found = SECTION.match(text)
        if found is not None:
            section, wanted = found[1], False
            continue
        if not text.strip() or text.lstrip().startswith(("#", ";")):
            continue
        start = line.start
        if not text[0].isspace():
            key = KEY.match(text)
            extras = section in ("options.extras_require", "extras_require")
            wanted = key is not None and (extras or OPTIONS.match(key[1]) is not None)
            start += key.end() if key is not None else 0
        if not wanted:
            continue
        body = COMMENT.sub("", file.text[start : line.end])
        requirement = body.strip()
        # tox writes a condition before a requirement: ``py311: celery``.
        factor = re.match(r"[\w{},!-]+:\s+", requirement)
        if factor is not None:
            requirement = requirement[factor.end() :]
        if requirement:
            begin = start + body.rindex(requirement)
            yield requirement, Span(begin, begin + len(requirement))


def arrays(data: Any) -> Iterator[Array]:
    """Every list of requirements in a pyproject.toml."""
    project = _table(data, "project")
    uv, pdm = _table(data, "tool", "uv"), _table(data, "tool", "pdm")
    hatch = _table(data, "tool", "hatch", "envs")
    groups = [project.get("dependencies"), _table(data, "build-system").get("requires")]
    groups += _table(project, "optional-dependencies").values()
    groups += _table(data, "dependency-groups").values()
    groups += [uv.get(f"{each}-dependencies") for each in ("dev", "constraint", "override")]
    groups += _table(pdm, "dev-dependencies").values()
    for each in hatch.values():
        groups += [each.get("dependencies"), each.get("extra-dependencies")]
    yield from (each for each in groups if isinstance(each, Array))


def tables(data: Any) -> Iterator[AbstractTable]:
    """Every table that has packages as keys: of Poetry, Pixi, and of a Pipfile."""
    poetry = _table(data, "tool", "poetry")
    found = [poetry.get("dependencies"), poetry.get("dev-dependencies")]
    groups = _table(poetry, "group").values()
    found += [each.get("dependencies") for each in groups if isinstance(each, AbstractTable)]
    found += [data.get("packages"), data.get("dev-packages")]
    found.append(_table(data, "tool", "pixi").get("pypi-dependencies"))
    yield from (each for each in found if isinstance(each, AbstractTable))


def _table(data: Any, *names: str) -> Any:
    for name in names:
        found = data.get(name)
        data = found if isinstance(found, AbstractTable) or hasattr(found, "values") else {}
    return data
