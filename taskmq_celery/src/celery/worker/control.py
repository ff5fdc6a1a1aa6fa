"""Commands that a worker obeys from afar. Programs register their own; none is carried out yet.

>>> @control_command(args=[("n", int)], signature="[N=1]")
... def grow_by(state, n=1): ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

__all__ = (
    "Panel",
    "add_consumer",
    "cancel_consumer",
    "control_command",
    "controller_info_t",
    "inspect_command",
    "nok",
    "ok",
)

DEFAULT_TIMEOUT = 1.0

F = TypeVar("F", bound=Callable[..., Any])


class controller_info_t(NamedTuple):  # noqa: N801  # Celery's name
    """What is known of a command."""

    alias: str | None
    type: str
    visible: bool
    default_timeout: float
    help: str | None
    signature: str | None
    args: Sequence[tuple[str, Any]] | None
    variadic: str | None


def ok(value: Any) -> dict[str, Any]:
    """The answer of a command that worked."""
    return {"ok": value}


def nok(value: Any) -> dict[str, Any]:
    """The answer of a command that did not."""
    return {"error": value}


class Panel(dict[str, Any]):
    """Commands by name."""

    data: dict[str, Callable[..., Any]] = {}  # noqa: RUF012  # of the class: every worker has them
    meta: dict[str, controller_info_t] = {}  # noqa: RUF012

    @classmethod
    def register(cls, *args: Any, **kwargs: Any) -> Any:
        """Add a command: as decorator, with or without arguments."""
        if args:
            return cls._register(**kwargs)(*args)
        return cls._register(**kwargs)

    @classmethod
    def _register(
        cls,
        name: str | None = None,
        alias: str | None = None,
        type: str = "control",
        visible: bool = True,
        default_timeout: float = DEFAULT_TIMEOUT,
        help: str | None = None,
        signature: str | None = None,
        args: Sequence[tuple[str, Any]] | None = None,
        variadic: str | None = None,
    ) -> Callable[[F], F]:
        def add(function: F) -> F:
            control_name = name or function.__name__
            text = help or (function.__doc__ or "").strip().split("\n")[0]
            cls.data[control_name] = function
            cls.meta[control_name] = controller_info_t(
                alias, type, visible, default_timeout, text, signature, args, variadic
            )
            if alias:
                cls.data[alias] = function
            return function

        return add


def control_command(**kwargs: Any) -> Callable[[F], F]:
    """Register a command that changes something in a worker."""
    return Panel._register(type="control", **kwargs)


def inspect_command(**kwargs: Any) -> Callable[[F], F]:
    """Register a command that tells something of a worker."""
    return Panel._register(type="inspect", **kwargs)


@control_command(
    args=[
        ("queue", str),
        ("exchange", str),
        ("exchange_type", str),
        ("routing_key", str),
    ],
    signature="<queue> [exchange [type [routing_key]]]",
)
def add_consumer(
    state: Any,
    queue: str,
    exchange: str | None = None,
    exchange_type: str | None = None,
    routing_key: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Take jobs from another queue too."""
    return nok("a worker cannot change its queues while it runs yet")


@control_command(args=[("queue", str)], signature="<queue>")
def cancel_consumer(state: Any, queue: str, **_: Any) -> dict[str, Any]:
    """Take no more jobs from a queue."""
    return nok("a worker cannot change its queues while it runs yet")
