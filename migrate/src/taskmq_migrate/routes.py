"""Which queue the jobs of a task go to, by the routes of a project."""

from __future__ import annotations

from fnmatch import fnmatchcase

__all__ = ["queue_by"]


def queue_by(routes: dict[str, str], module: str, function: str, name: str | None) -> str | None:
    """The queue that routes name for a task: by its name first, then by the first pattern."""
    found = _names(module, function, name)
    for each in found:
        if each in routes:
            return routes[each]
    for pattern, queue in routes.items():
        if any(fnmatchcase(each, pattern) for each in found):
            return queue
    return None


def _names(module: str, function: str, name: str | None) -> list[str]:
    """How a task may be named: as its decorator says, or after its module, of which nobody knows
    here from which folder it is imported."""
    if name is None:
        return []
    if name:
        return [name]
    parts = module.split(".")
    return [".".join([*parts[start:], function]) for start in range(len(parts))]
