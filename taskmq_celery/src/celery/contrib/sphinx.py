"""Sphinx documents tasks: ``extensions = ["celery.contrib.sphinx"]`` in ``conf.py``.

Tasks appear in ``automodule``, and ``.. autotask::`` documents one. The setting
``celery_task_prefix`` is what stands before their names, ``"(task)"`` unless told.
"""

from __future__ import annotations

from inspect import signature
from typing import Any

from docutils import nodes
from sphinx.domains.python import PyFunction
from sphinx.ext.autodoc import FunctionDocumenter

from celery.app.task import BaseTask

__all__ = ("TaskDirective", "TaskDocumenter", "setup")


class TaskDocumenter(FunctionDocumenter):  # type: ignore[misc]  # sphinx need not be installed
    """Documents the function of a task."""

    objtype = "task"
    member_order = 11

    @classmethod
    def can_document_member(cls, member: Any, membername: str, isattr: bool, parent: Any) -> bool:
        return isinstance(member, BaseTask) and bool(getattr(member, "__wrapped__", None))

    def format_args(self, **kwargs: Any) -> str:
        wrapped = getattr(self.object, "__wrapped__", None)
        if wrapped is None:
            return ""
        taken = signature(wrapped)
        parameters = [one for name, one in taken.parameters.items() if name != "self"]
        return str(taken.replace(parameters=parameters))

    def document_members(self, all_members: bool = False) -> None:
        """A task has members of the class that users do not look for here."""

    def check_module(self) -> bool:
        """Whether it belongs to the module that is being documented."""
        wrapped = getattr(self.object, "__wrapped__", None)
        if wrapped is not None and wrapped.__module__ == self.modname:
            return True
        return bool(super().check_module())


class TaskDirective(PyFunction):  # type: ignore[misc]  # sphinx need not be installed
    """``.. autotask::``"""

    def get_signature_prefix(self, sig: str) -> list[Any]:
        return [nodes.Text(self.env.config.celery_task_prefix), nodes.Text(" ")]


def autodoc_skip_member_handler(
    app: Any, what: str, name: str, obj: Any, skip: bool, options: Any
) -> bool | None:
    """Shows tasks, which sphinx would take for instances without documentation."""
    if isinstance(obj, BaseTask) and getattr(obj, "__wrapped__", None):
        return False
    return None


def setup(app: Any) -> dict[str, Any]:
    """Called by sphinx."""
    app.setup_extension("sphinx.ext.autodoc")
    app.add_autodocumenter(TaskDocumenter)
    app.add_directive_to_domain("py", "task", TaskDirective)
    app.add_config_value("celery_task_prefix", "(task)", "env")
    app.connect("autodoc-skip-member", autodoc_skip_member_handler)
    return {"parallel_read_safe": True}
