"""The retry policy that options of a Celery task come to."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from taskmq_migrate.arguments import Part, dict_items, is_literal, number
from taskmq_migrate.problems import Unclear
from taskmq_migrate.pythonfile import PythonFile

__all__ = ["OPTIONS", "Policy", "policy_of"]

OPTIONS = frozenset(
    {
        "autoretry_for",
        "default_retry_delay",
        "dont_autoretry_for",
        "max_retries",
        "retry_backoff",
        "retry_backoff_max",
        "retry_jitter",
        "retry_kwargs",
    }
)
DELAY = "180"  # seconds: Celery's default_retry_delay
MAX_DELAY = 600  # seconds, of both


@dataclass
class Policy:
    """Arguments of ``Retry(…)``, in the order in which they are written."""

    parts: list[tuple[Part, ...]] = field(default_factory=list)

    def add(self, name: str, *value: Part) -> None:
        self.parts.append((f"{name}=", *value))


def policy_of(
    file: PythonFile, options: dict[str, cst.BaseExpression], asks_itself: bool
) -> Policy | None:
    """What the options say of retries; None if they say nothing and the task never asks.

    ``asks_itself`` is whether the body calls ``self.retry``. Raises `Unclear`.
    """
    given = {name: value for name, value in options.items() if name in OPTIONS}
    if not given and not asks_itself:
        return None
    extra: dict[str, cst.BaseExpression] = {}
    if "retry_kwargs" in given:
        found = dict_items(given["retry_kwargs"])
        if found is None or not found.keys() <= {"max_retries", "countdown"}:
            raise Unclear("retry_kwargs is no literal of max_retries and countdown")
        extra = found
    policy = Policy()
    policy.add("max_attempts", *_attempts(file, extra.get("max_retries", given.get("max_retries"))))
    automatic = "autoretry_for" in given
    backoff = given.get("retry_backoff") if automatic else None
    if backoff is not None and not is_literal(backoff, "False"):
        _exponential(file, policy, backoff, given)
    else:
        _fixed(file, policy, extra.get("countdown", given.get("default_retry_delay")))
    policy.add("retry_on", *(_classes(file, given["autoretry_for"]) if automatic else ("()",)))
    if "dont_autoretry_for" in given:
        policy.add("give_up_on", *_classes(file, given["dont_autoretry_for"]))
    return policy


def _attempts(file: PythonFile, retries: cst.BaseExpression | None) -> tuple[Part, ...]:
    """Celery counts the repetitions, the engine counts the first run too."""
    if retries is None:
        return ("4",)
    if is_literal(retries, "None"):
        raise Unclear("max_retries=None repeats for ever; Retry wants a number of attempts")
    value = number(retries)
    if value is not None:
        return (str(int(value) + 1),)
    return (file.whole(retries), " + 1")


def _exponential(
    file: PythonFile,
    policy: Policy,
    backoff: cst.BaseExpression,
    given: dict[str, cst.BaseExpression],
) -> None:
    if not is_literal(backoff, "True"):
        if number(backoff) is None:
            raise Unclear("retry_backoff is neither True nor a number that is written out")
        policy.add("base", file.whole(backoff))
    if "retry_backoff_max" in given:
        policy.add("max_delay", file.whole(given["retry_backoff_max"]))
    jitter = given.get("retry_jitter")
    if jitter is not None and not is_literal(jitter, "True"):
        policy.add("jitter", file.whole(jitter))


def _fixed(file: PythonFile, policy: Policy, delay: cst.BaseExpression | None) -> None:
    policy.add("backoff", '"fixed"')
    policy.add("base", file.whole(delay) if delay is not None else DELAY)
    value = number(delay) if delay is not None else float(DELAY)
    if delay is not None and (value is None or value > MAX_DELAY):
        policy.add("max_delay", file.whole(delay))
    policy.add("jitter", "False")


def _classes(file: PythonFile, node: cst.BaseExpression) -> tuple[Part, ...]:
    if isinstance(node, cst.Tuple):
        return (file.whole(node),)
    return ("tuple(", file.whole(node), ")")
