"""``task_annotations``: attributes of tasks, set from the configuration.

>>> app.conf.task_annotations = {"*": {"rate_limit": "10/s"}, "tasks.add": {"acks_late": True}}
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from celery.utils.functional import maybe_list
from celery.utils.imports import instantiate

__all__ = ("MapAnnotation", "prepare", "resolve_all")


class MapAnnotation(dict[str, Any]):
    """Annotations as a mapping of task names; ``*`` holds for every task."""

    def annotate_any(self) -> dict[str, Any] | None:
        return dict(self["*"]) if "*" in self else None

    def annotate(self, task: Any) -> dict[str, Any] | None:
        return dict(self[task.name]) if task.name in self else None


def prepare(annotations: Any) -> list[Any]:
    """Objects with ``annotate(task)`` and ``annotate_any()``, made from what the setting holds."""

    def made(each: Any) -> Any:
        if isinstance(each, Mapping):
            return MapAnnotation(each)
        return instantiate(each) if isinstance(each, str) else each

    return [made(each) for each in maybe_list(annotations) or ()]


def resolve_all(anno: list[Any], task: Any) -> list[dict[str, Any]]:
    """What is to be set on a task, the general before the particular."""
    found = [each.annotate_any() for each in anno if hasattr(each, "annotate_any")]
    found += [each.annotate(task) for each in anno]
    return [each for each in found if each]
