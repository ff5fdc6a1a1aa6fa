"""Which expressions are handles of jobs."""

from __future__ import annotations

import libcst as cst

from taskmq_migrate.pythonfile import PythonFile

__all__ = ["CLASSES", "is_handle"]

CLASSES = ("celery.result.AsyncResult",)


def is_handle(file: PythonFile, node: cst.BaseExpression) -> bool:
    """Whether an expression is the result of a job, of Celery's or the engine's: where it was
    submitted, made of an id, or put into a variable."""
    value = node
    if isinstance(node, cst.Name):
        bound, _ = file.bound_to(node)
        if bound is None:
            return False
        value = bound
    if not isinstance(value, cst.Call):
        return False
    if file.is_submission(value) or file.is_(value.func, *CLASSES):
        return True
    if not isinstance(value.func, cst.Attribute):
        return False
    name, owner = value.func.attr.value, value.func.value
    return name in {"AsyncResult", "result"} and (file.is_app(owner) or file.is_task(owner))
