"""A request to run a task, before it is stored: task, arguments and options, as one value."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar, Union, get_args

import msgspec

from .checks import (
    Check,
    boolean,
    count,
    name_of,
    nearest,
    not_negative,
    number,
    one_of,
    positive,
    priority,
    text,
    text_map,
)
from .envelope import AckPolicy, Dependency, Envelope, RunIf
from .errors import ConfigError

if TYPE_CHECKING:
    from .limits import Capacity
    from .policy import TaskPolicy
    from .result import Result
    from .tasks import Task

__all__ = [
    "NO_OPTIONS",
    "Call",
    "Expandable",
    "Extension",
    "Options",
    "Pattern",
    "Replacement",
    "When",
    "instant",
]

R = TypeVar("R")
When = Union[float, datetime.timedelta, datetime.datetime]  # noqa: UP007  # evaluated on 3.10
"""Seconds from now, or an instant (a timezone-aware datetime)."""


def instant(name: str, when: When, now: float) -> float:
    """The instant meant by ``when``, as epoch seconds. Raises `ConfigError` for a naive one."""
    if isinstance(when, datetime.datetime):
        if when.tzinfo is None:
            raise ConfigError(
                f"{name}={when!r} has no time zone; pass seconds or an aware datetime"
            )
        return when.timestamp()
    if isinstance(when, datetime.timedelta):
        return now + when.total_seconds()
    if isinstance(when, bool) or not isinstance(when, (int, float)):
        raise ConfigError(f"{name} must be seconds, a timedelta or an aware datetime, got {when!r}")
    return now + number(name, when)


def _when(name: str, value: Any) -> None:
    instant(name, value, 0.0)


def _headers(name: str, value: object) -> None:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigError(f"{name} must be a dict with str keys, got {value!r}")


_CHECKS: tuple[tuple[str, Check], ...] = (
    ("queue", name_of),
    ("eta", _when),
    ("expires", _when),
    ("timeout", positive),
    ("hard_timeout", positive),
    ("priority", priority),
    ("key", text),
    ("key_ttl", positive),
    ("headers", _headers),
    ("ack", one_of(*get_args(AckPolicy))),
    ("max_attempts", count),
    ("max_deliveries", count),
    ("store_result", boolean),
    ("result_ttl", not_negative),
    ("codec", name_of),
    ("id", text),
    ("trace", text_map),
    ("rate_key", text),
    ("concurrency_key", text),
    ("fair_key", text),
    ("dedup", text),
    ("dedup_ttl", positive),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How one job differs from its task's policy. ``None``: as the policy says.

    Raises `ConfigError` for a value that is out of range: an envelope that was stored can be read.
    """

    queue: str | None = None
    eta: When | None = None
    """Not before: seconds from now or an aware datetime."""
    expires: When | None = None
    """Not started by then: never run."""
    timeout: float | None = None
    hard_timeout: float | None = None
    priority: int | None = None
    key: str | None = None
    """Idempotency key: one job for it within ``key_ttl``."""
    key_ttl: float | None = None
    headers: Mapping[str, Any] | None = None
    ack: AckPolicy | None = None
    max_attempts: int | None = None
    """How often it may run, in place of what its task's `Retry` says; the rest of that holds, or
    the default one, if the task has none. 1: no retry."""
    max_deliveries: int | None = None
    store_result: bool | None = None
    result_ttl: float | None = None
    codec: str | None = None
    id: str | None = None
    """The job's id, for callers that make their own."""
    trace: Mapping[str, str] | None = None
    rate_key: str | None = None
    """The key itself, instead of what the task's template would give; so the next two."""
    concurrency_key: str | None = None
    fair_key: str | None = None
    dedup: str | None = None
    """Likewise: another job with this key that ran, or runs, makes this one be skipped."""
    dedup_ttl: float | None = None

    def __post_init__(self) -> None:
        for name, check in _CHECKS:
            value = getattr(self, name)
            if value is not None:
                check(name, value)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> Options:
        """Options by name. Raises `ConfigError` naming the nearest for an unknown one."""
        for name in options:
            if name not in OPTION_NAMES:
                raise ConfigError(f"no option {name!r}{nearest(name, OPTION_NAMES)}")
        return cls(**options)


OPTION_NAMES = frozenset(f.name for f in fields(Options))
NO_OPTIONS = Options()


class Expandable(Protocol):
    """Several calls that give one result: a workflow."""

    def expand(self, workflow: str) -> tuple[Sequence[Call[Any]], str]:
        """The calls, with ids, as part of a workflow; and the id of the one that gives the
        result."""


@dataclass(frozen=True, slots=True)
class Replacement:
    """Returned by a task (`TaskContext.replace`): its result is that of the job ``to``."""

    calls: tuple[Call[Any], ...]
    to: str


@dataclass(frozen=True, slots=True)
class Extension:
    """Returned by a task (`TaskContext.extend`): ``result`` is its result, and whoever waits for
    it waits for these calls, too."""

    calls: tuple[Call[Any], ...]
    result: Any


class Pattern(NamedTuple):
    """What jobs of one task with the same options have in common."""

    policy: TaskPolicy
    options: Options
    envelope: Envelope
    """Its fields `taskmq.envelope.OWN` are still to be set."""
    capacity: Capacity | None


class Call(msgspec.Struct, Generic[R], frozen=True):
    """A task with arguments and options, ready to be submitted. Immutable.

    >>> send.call("a@b.com").options(queue="email", key="order-42").submit()
    """

    task: Task[..., R]
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}
    with_: Options = NO_OPTIONS
    after: tuple[Dependency, ...] = ()
    run_if: RunIf = "succeeded"
    workflow: str | None = None
    fail_fast: bool = False
    feeds: bool = False
    id: str | None = None
    """The job's id, if something else has to know it beforehand."""
    pattern: Pattern | None = None
    """What it has in common with others that have the same options; see `taskmq.App.prepared`."""

    def options(self, **options: Any) -> Call[R]:
        """A copy with these options changed. Raises `ConfigError` for an unknown one."""
        Options.of(options)
        return msgspec.structs.replace(self, with_=replace(self.with_, **options))

    def submit(self, *, connection: object | None = None) -> Result[R]:
        """Store the job; see `taskmq.Task.submit`."""
        return self.task.app.submit(self, connection=connection)

    async def asubmit(self) -> Result[R]:
        """`submit` for asyncio callers, through a thread."""
        return await self.task.app.asubmit(self)
