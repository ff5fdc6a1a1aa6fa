"""Requirements, as data: what stands for Celery and its relatives, and what becomes of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

__all__ = [
    "BRINGS_CELERY",
    "OLDEST",
    "SHIM",
    "SHIM_VERSIONS",
    "Celery",
    "find_celery",
    "too_old",
]

SHIM = "taskmq-celery"
SHIM_VERSIONS = ">=0.2,<0.3"
OLDEST = {"kombu": "5.5", "billiard": "4.2.1", "vine": "5.1", "click": "8.1.2"}
"""What the shim requires of the packages that programs pin beside Celery."""
BRINGS_CELERY = frozenset(
    {
        "celery-batches",
        "celery-once",
        "celery-redbeat",
        "celery-singleton",
        "django-celery-beat",
        "django-celery-results",
        "flower",
        "pytest-celery",
        "sqlalchemy-celery-beat",
        "tenant-schemas-celery",
    }
)
"""Packages that require the distribution ``celery``, which the provider of the shim stands for."""
REQUIREMENT = re.compile(
    r"""(?ix)
    (?P<name>celery)
    (?P<extras>\s*\[[^\]]*\])?
    (?P<versions>\s*(?:\(\s*)?(?:(?:===?|[<>!~]=|<|>)\s*[^\s,;)\#]+\s*,?\s*)*(?:\))?)
    (?P<rest>\s*(?:;.*)?)
    """
)


@dataclass(frozen=True)
class Celery:
    """A requirement of the distribution ``celery``, in its parts."""

    extras: str
    versions: str
    rest: str

    def as_shim(self) -> str:
        """The same requirement of the shim: extras and environment markers stay."""
        return f"{SHIM}{self.extras.strip()}{SHIM_VERSIONS}{self.rest}"


def find_celery(requirement: str) -> Celery | None:
    """The parts of a requirement if it is Celery's; None for any other, and for URLs."""
    found = REQUIREMENT.fullmatch(requirement)
    if found is None:
        return None
    return Celery(found["extras"] or "", found["versions"].strip(), found["rest"])


def parsed(requirement: str) -> tuple[str, Requirement] | None:
    """Canonical name and parts of a requirement; None for what is none."""
    try:
        found = Requirement(requirement)
    except InvalidRequirement:
        return None
    return canonicalize_name(found.name), found


def too_old(requirement: str) -> str:
    """Why a requirement cannot be met beside the shim; empty if it can."""
    found = parsed(requirement)
    if found is None or found[0] not in OLDEST:
        return ""
    name, parts = found
    oldest = OLDEST[name]
    candidates = [oldest, "4.6.11", "5.2", "6.0", "5.99", "7.99", "8.99", "9.99"]
    pins = [each.version for each in parts.specifier if each.operator in ("==", "~=", ">=", "<=")]
    fitting = [*candidates, *(each.removesuffix(".*") for each in pins)]
    if any(_at_least(each, oldest) and parts.specifier.contains(each) for each in fitting):
        return ""
    return f"{SHIM} needs {name}>={oldest}: loosen {requirement}"


def _at_least(version: str, oldest: str) -> bool:
    found = parsed(f"x>={oldest}")
    return found is not None and found[1].specifier.contains(version)
