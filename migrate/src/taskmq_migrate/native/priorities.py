"""Priorities: what Celery's numbers mean depends on the broker."""

from __future__ import annotations

import libcst as cst

from taskmq_migrate.arguments import Parts, number
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile

__all__ = ["priority_of"]

WHY_NOT = (
    "priorities are -9 to 9 and higher is sooner, on every store; which way Celery's went depends "
    "on the broker, and this repository does not say which one that is"
)
LIMIT = 9


def priority_of(file: PythonFile, value: cst.BaseExpression) -> Parts:
    """A priority of the engine's: on Redis Celery's 0 is soonest, on RabbitMQ it is latest.

    What was converted already stays. Raises `Unclear`.
    """
    if isinstance(value, cst.UnaryOperation) and isinstance(value.operator, cst.Minus):
        return (file.whole(value),)
    broker, written = file.facts.broker, number(value)
    if not broker:
        raise Unclear(f"priority: {WHY_NOT}")
    if written is not None and written > LIMIT:
        raise Unclear(f"priority: {LIMIT} is the highest")
    if broker == "amqp" or written == 0:
        return (file.whole(value),)
    plain = written is not None or value.lpar or isinstance(value, cst.Name | cst.Attribute)
    return ("-", file.whole(value)) if plain else ("-(", file.whole(value), ")")
