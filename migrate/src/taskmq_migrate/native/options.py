"""Options of one job: what Celery's are called in the engine."""

from __future__ import annotations

import libcst as cst

from taskmq_migrate.arguments import Parts, is_literal
from taskmq_migrate.names import literal_text
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile

from .priorities import priority_of

__all__ = ["OF_SUBMIT", "options_of"]

OF_SUBMIT = frozenset({"eta", "expires", "headers", "priority", "queue", "timeout"})
"""What ``submit`` takes beside the arguments; all others need ``call(…).options(…)``."""

RENAMED = {
    "countdown": "eta",
    "eta": "eta",
    "expires": "expires",
    "headers": "headers",
    "queue": "queue",
    "soft_time_limit": "timeout",
    "task_id": "id",
    "time_limit": "hard_timeout",
}
# How a message is published, which is the store's business.
DROPPED = frozenset({"retry", "retry_policy", "connection", "producer", "shadow", "add_to_parent"})
WHY_NOT = {
    "link": "what follows a job is a node of a taskmq.workflow.Workflow",
    "link_error": "Workflow.on_error runs a task when a node is lost",
    "routing_key": "there are no routing keys: queue= says where jobs go",
    "exchange": "there are no exchanges: queue= says where jobs go",
}


def options_of(file: PythonFile, given: dict[str, cst.BaseExpression]) -> dict[str, Parts]:
    """The engine's options that say what Celery's say. Raises `Unclear`."""
    found: dict[str, Parts] = {}
    for name, value in given.items():
        if name in DROPPED or is_literal(value, "None"):
            continue
        if name == "serializer" and literal_text(value) == "json":
            continue
        if name == "ignore_result" and is_literal(value, "True", "False"):
            if is_literal(value, "True"):
                found["store_result"] = ("False",)
        elif name == "priority":
            found[name] = priority_of(file, value)
        elif name == "expiration" and file.facts.broker == "redis":
            continue  # a property of messages that Redis does not heed
        elif name == "expiration" and file.facts.broker == "amqp" and "expires" not in given:
            found["expires"] = (file.whole(value),)
        elif name in RENAMED and RENAMED[name] not in found:
            found[RENAMED[name]] = (file.whole(value),)
        else:
            raise Unclear(f"{name}: {WHY_NOT.get(name, 'a job has no such option')}")
    return found
