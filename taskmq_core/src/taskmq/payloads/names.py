"""How payloads are called: ``<job id>.<kind>.<digest>``, and ``.<workflow>`` behind that.

The job's id says to whom it belongs, and a workflow's who else may have been given a result: that
is what a sweep has to know. The digest makes that a name always stands for the same bytes, so that
nothing is ever overwritten by something else.
"""

from __future__ import annotations

import re
from enum import Enum
from urllib.parse import quote, unquote

from taskmq.errors import EncodeError

__all__ = ["Kind", "is_name", "job_of", "kind_of", "name_of", "shard_of", "workflow_of"]

LONGEST = 100
ID = rf"[A-Za-z0-9_%~-]{{1,{LONGEST}}}"
NAME = re.compile(rf"{ID}\.[ar]\.[0-9a-f]{{32}}(\.{ID})?")


class Kind(Enum):
    ARGUMENTS = "a"
    RESULT = "r"


def name_of(job_id: str, kind: Kind, digest: str, workflow: str | None = None) -> str:
    """Raises `EncodeError` for an id that no file could be named after."""
    name = f"{_plain(job_id)}.{kind.value}.{digest[:32]}"
    if workflow is not None:
        name += f".{_plain(workflow)}"
    if not is_name(name):
        raise EncodeError(
            f"job id {job_id!r} or its workflow's is too long for a payload store "
            f"({LONGEST} characters)"
        )
    return name


def is_name(name: str) -> bool:
    """Whether it can be one of ours. Nothing else is ever read, written or deleted."""
    return NAME.fullmatch(name) is not None


def job_of(name: str) -> str:
    """The id of the job that a payload belongs to."""
    return unquote(name.partition(".")[0])


def kind_of(name: str) -> Kind:
    return Kind(name.split(".")[1])


def workflow_of(name: str) -> str | None:
    """The id of the workflow of that job."""
    parts = name.split(".")
    return unquote(parts[3]) if len(parts) > 3 else None


def shard_of(name: str) -> str:
    """Which of 256 folders it is in: none grows too large."""
    return name.split(".")[2][:2]


def _plain(id: str) -> str:
    return quote(id, safe="").replace(".", "%2E")
