"""Requirements, as data: what stands for Celery, and what it becomes."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["SHIM", "SHIM_VERSIONS", "Celery", "find_celery"]

SHIM = "taskmq-celery"
SHIM_VERSIONS = ">=0.2,<0.3"
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
