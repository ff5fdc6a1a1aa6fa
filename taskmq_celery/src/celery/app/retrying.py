"""What a retry sends: the message of the run that ends, with what it changes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from celery.canvas import Signature

__all__ = ("changes_of", "raise_from_handled", "signature_of")

X_DEATH_HEADERS = frozenset(
    {
        "x-death",
        *(
            f"x-{which}-death-{what}"
            for which in ("first", "last")
            for what in ("exchange", "queue", "reason")
        ),
    }
)
"""What RabbitMQ writes into a message that it has dead-lettered."""

CHANGEABLE = ("queue", "priority", "headers", "expires", "shadow")
"""Options of `Task.retry` that change the message, beside its arguments."""

POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def signature_of(
    task: Any, request: Any, args: Any, kwargs: Any, queue: Any, extra: Mapping[str, Any]
) -> Signature:
    """A signature that runs ``task`` as the run of ``request`` does; what is given, and the
    options ``extra``, go before what that has."""
    options = {**request.as_execution_options(), **extra}
    options["ignore_result"] = request.ignore_result
    if options.get("headers"):
        # RabbitMQ would take the retry for a message that goes round in circles.
        options["headers"] = {
            name: value for name, value in options["headers"].items() if name not in X_DEATH_HEADERS
        }
    info = request.delivery_info or {}
    if info.get("priority") is not None:
        options.setdefault("priority", info["priority"])
    if queue:
        options["queue"] = queue
    elif info.get("exchange"):
        options.setdefault("exchange", info["exchange"])
        options.setdefault("routing_key", info.get("routing_key"))
    elif info.get("routing_key"):
        options.setdefault("queue", info["routing_key"])
    args, kwargs = _arguments(task, request, args, kwargs)
    signature: Signature = task.signature(args, kwargs, **options)
    return signature


def _arguments(task: Any, request: Any, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """The arguments of another run: those given, else those of this one. No parameter gets its
    value from both."""
    if (args is None) == (kwargs is None):
        return (request.args, request.kwargs) if args is None else (args, kwargs)
    try:
        taken = list(inspect.signature(task.run).parameters.values())
    except (TypeError, ValueError):  # nobody can know
        taken = []
    positional = [one for one in taken if one.kind in POSITIONAL]
    by_keyword_too = POSITIONAL[1]
    if kwargs is None:
        filled = {one.name for one in positional[: len(args)] if one.kind == by_keyword_too}
        kwargs = {name: v for name, v in (request.kwargs or {}).items() if name not in filled}
        return args, kwargs
    before, left = list(request.args or ()), dict(kwargs)
    for index, one in enumerate(positional[: len(before)]):
        if one.kind == by_keyword_too and one.name in left:
            before[index] = left.pop(one.name)
    return tuple(before), left


def changes_of(args: Any, kwargs: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """What a retry with these arguments and options changes in the message, beside the time."""
    changes = {name: options[name] for name in CHANGEABLE if options.get(name) is not None}
    if args is not None:
        changes["args"] = args
    if kwargs is not None:
        changes["kwargs"] = kwargs
    limits = options.get("time_limit"), options.get("soft_time_limit")
    if any(limit is not None for limit in limits):
        changes["timelimit"] = list(limits)
    return changes


def raise_from_handled(exc: Any) -> NoReturn:
    """Raise ``exc``; the exception that is being handled is its cause, unless it is the same."""
    handled = sys.exc_info()[1]
    if handled is None or exc is handled:
        raise exc
    raise exc from handled
