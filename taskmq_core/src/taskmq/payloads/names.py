"""How payloads are called: ``<job id>.<kind>.<digest>``.

The job's id says to whom it belongs, which is all that a sweep needs to know; the digest makes
that a name always stands for the same bytes, so that nothing is ever overwritten by something else.
"""

from __future__ import annotations

import re
from enum import Enum
from urllib.parse import quote, unquote

from taskmq.errors import EncodeError

__all__ = ["Kind", "is_name", "job_of", "kind_of", "name_of"]

NAME = re.compile(r"[A-Za-z0-9_%~-]{1,180}\.[arf]\.[0-9a-f]{32}")


class Kind(Enum):
    ARGUMENTS = "a"
    RESULT = "r"
    HANDED_OVER = "f"
    """A result that other jobs have a reference to as well: they may outlive its own."""


def name_of(job_id: str, kind: Kind, digest: str) -> str:
    """Raises `EncodeError` for a job id that no file could be named after."""
    name = f"{quote(job_id, safe='').replace('.', '%2E')}.{kind.value}.{digest[:32]}"
    if not is_name(name):
        raise EncodeError(f"job id {job_id!r} is too long for a payload store (180 characters)")
    return name


def is_name(name: str) -> bool:
    """Whether it can be one of ours. Nothing else is ever read, written or deleted."""
    return NAME.fullmatch(name) is not None


def job_of(name: str) -> str:
    """The id of the job that a payload belongs to."""
    return unquote(name.partition(".")[0])


def kind_of(name: str) -> Kind:
    return Kind(name.split(".")[1])
