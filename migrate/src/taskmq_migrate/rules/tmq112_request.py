"""``self.request``, ``current_task``: what a running task knows of its job."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from taskmq_migrate.model import Example, Page, Site, Target
from taskmq_migrate.native.bodies import uses_of_self
from taskmq_migrate.native.taskclasses import members_of
from taskmq_migrate.pythonfile import PythonFile
from taskmq_migrate.rule import PythonRule

__all__ = ["RULE"]

# Attributes of a request: what they are in the engine's context.
FIELDS = {"id": "id", "task": "task", "hostname": "worker", "headers": "headers"}
NATIVE = frozenset(
    {
        "attempt",
        "cancelled",
        "check_cancelled",
        "deadline",
        "deliveries",
        "extend",
        "heartbeat",
        "is_last_attempt",
        "log",
        "publish",
        "queue",
        "reclaims",
        "remaining",
        "replace",
        "retry",
        "trace",
        "worker",
    }
)
OF_TASK = frozenset(
    {"__class__", "__name__", "app", "delay", "name", "queue", "request", "retry", "run", "submit"}
)
CURRENT = ("celery.current_task", "celery._state.current_task")
NO_PROXY = "current_task is a function that gives the context, where a task is running"
WHY_NOT = {
    "update_state": "a job has no states of a program's own: log, or store progress where it is "
    "read",
    "replace": "return self.request.replace(workflow) instead",
    "max_retries": "the policy is in retry=Retry(max_attempts=…)",
    "apply_async": "TMQ120 converts calls of the task by its name: call it by that",
    "args": "the arguments are the parameters of the function",
    "kwargs": "the arguments are the parameters of the function",
    "delivery_info": "the context has queue",
    "root_id": "the context has trace",
    "parent_id": "the context has trace",
    "correlation_id": "the context has trace and headers",
}


class Request(PythonRule):
    id = "TMQ112"
    title = "self.request and current_task become the engine's context"
    targets = frozenset({Target.NATIVE})
    words = ("elery", "taskmq")
    page = Page(
        why="self.request is the TaskContext in the engine: id and headers are the same, retries "
        "are counted as attempts from 1, and the host is the worker's name.",
        risk="None for what is converted; everything else is marked.",
        examples=(
            Example(
                "tasks.py",
                before="from celery import current_task, shared_task\n\n\n"
                "@shared_task(bind=True)\ndef fetch(self, url):\n"
                "    print(self.request.id, self.request.retries * 2)\n\n\n"
                "def where():\n    if not current_task:\n        return None\n"
                "    return current_task.request.hostname\n",
                after="from celery import shared_task\nfrom taskmq import current_task as "
                "taskmq_current_task\n\n\n"
                "@shared_task(bind=True)\ndef fetch(self, url):\n"
                "    print(self.request.id, (self.request.attempt - 1) * 2)\n\n\n"
                "def where():\n    if not taskmq_current_task(None):\n        return None\n"
                "    return taskmq_current_task().worker\n",
            ),
            Example(
                "slow.py",
                before="from celery import shared_task\n\n\n"
                "@shared_task(bind=True)\ndef slow(self):\n"
                '    self.update_state(state="HALF")\n',
                after="from celery import shared_task\n\n\n"
                "@shared_task(bind=True)\ndef slow(self):\n"
                "    # TODO(taskmq-migrate TMQ112): update_state: a job has no states of a "
                "program's own: log, or store progress where it is read\n"
                '    self.update_state(state="HALF")\n',
            ),
        ),
    )

    def sites(self, file: PythonFile) -> Iterator[Site]:
        for function, node in uses_of_self(file):
            name = node.attr.value
            if name not in OF_TASK and name not in members_of(file, function):
                why = WHY_NOT.get(name, "a task of the engine has no such attribute")
                yield file.mark_at(node, f"{name}: {why}")
            elif name == "request":
                yield from self._request(file, node)
        for current in [*file.nodes(cst.Name), *file.nodes(cst.Attribute)]:
            if (
                _is_current(file, current)
                and file.enclosing(current, cst.ImportFrom) is None
                and not _is_part(file, current)
            ):
                yield from self._current(file, current)

    def _request(self, file: PythonFile, request: cst.Attribute) -> Iterator[Site]:
        field = file.parent(request)
        if not isinstance(field, cst.Attribute) or field.value is not request:
            return
        name = field.attr.value
        if FIELDS.get(name) == name or name in NATIVE:
            return
        if name == "called_directly":
            text, imports = file.import_as("taskmq.current_task", field)
            edit = file.replace(file.span(field), f"({text}(None) is None)")
            yield file.convert_at(field, "whether it is no job", edit, imports=imports)
            return
        new = _renamed(file, field, name)
        if new is None:
            yield file.mark_at(field, f"{name}: {_why(name)}")
            return
        before, after = new
        yield file.convert_at(
            field,
            "a field of the context",
            file.replace(file.span(field), before, file.span(request), after),
        )

    def _current(self, file: PythonFile, current: cst.BaseExpression) -> Iterator[Site]:
        request = file.parent(current)
        field = file.parent(request) if request is not None else None
        text, imports = file.import_as("taskmq.current_task", current)
        released = (current,) if file.is_(current, *CURRENT) else ()
        if _is_condition(file, current):
            yield file.convert_at(
                current,
                "whether a task is running",
                file.replace(file.span(current), f"{text}(None)"),
                imports=imports,
                released=released,
            )
            return
        if (
            not isinstance(request, cst.Attribute)
            or request.attr.value != "request"
            or not isinstance(field, cst.Attribute)
            or field.value is not request
        ):
            yield file.mark_at(current, NO_PROXY)
            return
        name = field.attr.value
        new = _renamed(file, field, name)
        if new is None:
            yield file.mark_at(field, f"{name}: {_why(name)}")
            return
        yield file.convert_at(
            field,
            "a field of the context",
            file.replace(file.span(field), f"{new[0]}{text}(){new[1]}"),
            imports=imports,
            released=released,
        )


def _is_current(file: PythonFile, node: cst.BaseExpression) -> bool:
    """``current_task`` of Celery, or of an app."""
    if isinstance(node, cst.Attribute) and node.attr.value == "current_task":
        return file.is_(node, *CURRENT) or file.is_app(node.value)
    return file.is_(node, *CURRENT)


def _is_condition(file: PythonFile, node: cst.CSTNode) -> bool:
    """Whether only the truth of an expression matters."""
    parent = file.parent(node)
    if isinstance(parent, cst.If | cst.While | cst.IfExp | cst.Assert):
        return parent.test is node
    if isinstance(parent, cst.UnaryOperation):
        return isinstance(parent.operator, cst.Not)
    if isinstance(parent, cst.BooleanOperation):
        is_guard = isinstance(parent.operator, cst.And) and parent.left is node
        return is_guard or _is_condition(file, parent)
    return False


def _why(name: str) -> str:
    return WHY_NOT.get(name, "the context has no such field")


def _is_part(file: PythonFile, node: cst.CSTNode) -> bool:
    """Whether a name is the attribute's name, or the import's, and not an expression."""
    parent = file.parent(node)
    return isinstance(parent, cst.Attribute) and parent.attr is node


def _renamed(file: PythonFile, field: cst.Attribute, name: str) -> tuple[str, str] | None:
    """What stands before and behind the context in place of a field."""
    if name == "retries":
        alone = isinstance(
            file.parent(field),
            cst.Arg | cst.Assign | cst.Return | cst.FormattedStringExpression | cst.Index,
        )
        return ("", ".attempt - 1") if alone else ("(", ".attempt - 1)")
    return ("", f".{FIELDS[name]}") if name in FIELDS else None


RULE = Request()
