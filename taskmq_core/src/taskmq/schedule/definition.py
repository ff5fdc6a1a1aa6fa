"""A schedule: which task, when, and what to do about runs that came too late or too soon."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any, Literal, get_args

import msgspec

from taskmq.checks import Check, count, name_of, not_negative, one_of, optional
from taskmq.errors import ConfigError

from .rules import At, Cron, Every, Rule

__all__ = ["Misfire", "Overlap", "Schedule", "at", "cron", "every"]

Misfire = Literal["run_once", "skip", "run_all"]
"""What becomes of runs that nobody enqueued in time, because no scheduler ran: the latest of them
is run (late rather than lost); none is; each is, the latest ``most`` of them."""

Overlap = Literal["allow", "skip", "queue_one"]
"""What becomes of a run that is due while an earlier one has not ended: it is enqueued all the
same; it is left out; it is enqueued unless one waits already."""


OWN_OPTIONS = {"id", "key", "key_ttl", "eta"}


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Runs of a task at instants. ``name`` is unique in a store.

    ``args`` and ``kwargs`` are the task's, JSON values; ``options`` what `Call.options` takes.
    ``jitter`` spreads runs over so many seconds after their instant, each by an amount that
    depends on name and instant alone. Nothing is due before ``start`` or after ``end`` (aware).

    A run is late if it is enqueued more than ``grace`` seconds after its instant. With
    ``misfire="skip"`` a late run is left out (60 s unless said otherwise); with the others only
    if ``grace`` is given.

    Raises `ConfigError`.
    """

    name: str
    task: str
    rule: Rule
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    options: dict[str, Any] = {}
    jitter: float = 0.0
    start: datetime | None = None
    end: datetime | None = None
    misfire: Misfire = "run_once"
    grace: float | None = None
    most: int = 100
    overlap: Overlap = "allow"

    def __post_init__(self) -> None:
        for field, check in _CHECKS.items():
            check(f"schedule {self.name!r}: {field}", getattr(self, field))
        for field in ("start", "end"):
            value = getattr(self, field)
            if value is not None and value.utcoffset() is None:
                raise ConfigError(f"schedule {self.name!r}: {field} needs a time zone")
        for option in OWN_OPTIONS & self.options.keys():
            raise ConfigError(f"schedule {self.name!r}: option {option!r} is the scheduler's own")
        if self.start is not None and self.end is not None and self.end < self.start:
            raise ConfigError(f"schedule {self.name!r}: end is before start")

    def next_after(self, instant: datetime) -> datetime | None:
        """The first due instant later than ``instant`` (aware), within start and end."""
        if self.start is not None and instant < self.start:
            instant = self.start - self.start.resolution
        found = self.rule.next_after(instant)
        return None if found is None or (self.end is not None and found > self.end) else found

    def delay(self, due: datetime) -> float:
        """Seconds by which the run of an instant is put off, from 0 to ``jitter``."""
        if not self.jitter:
            return 0.0
        text = f"{self.name} {due.astimezone(timezone.utc).isoformat()}"
        digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "big") / 2**64 * self.jitter


def cron(task: str, expression: str, *, tz: str = "UTC", **fields: Any) -> Schedule:
    """A schedule by a cron expression in a zone; see `Cron` and, for ``fields``, `Schedule`.

    >>> app.schedule(cron("shop.report", "0 9 * * mon-fri", tz="Europe/Paris"))
    """
    return _schedule(task, Cron(expression, tz), fields)


def every(task: str, *, seconds: float, anchor: datetime | None = None, **fields: Any) -> Schedule:
    """A schedule by elapsed time; see `Every`.

    >>> app.schedule(every("shop.clean_up", seconds=300, overlap="skip"))
    """
    rule = Every(seconds) if anchor is None else Every(seconds, anchor)
    return _schedule(task, rule, fields)


def at(task: str, instant: datetime, **fields: Any) -> Schedule:
    """A schedule of a single run; see `At`. It needs a ``name`` of its own.

    >>> app.schedule(at("shop.close", datetime(2030, 1, 1, tzinfo=timezone.utc), name="the end"))
    """
    return _schedule(task, At(instant), fields)


def _schedule(task: str, rule: Rule, fields: Mapping[str, Any]) -> Schedule:
    known: Callable[..., Schedule] = Schedule
    values = {"name": task, **fields}
    values["args"] = tuple(values.get("args", ()))
    try:
        return known(task=task, rule=rule, **values)
    except TypeError as error:
        raise ConfigError(f"schedule of {task!r}: {error}") from None


def _json(name: str, value: object) -> None:
    try:
        msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(f"{name} must be JSON: {error}") from None


def _keywords(name: str, value: object) -> None:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ConfigError(f"{name} must be a dict with str keys, got {value!r}")
    _json(name, value)


def _arguments(name: str, value: object) -> None:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise ConfigError(f"{name} must be a list, got {value!r}")
    _json(name, value)


_CHECKS: dict[str, Check] = {
    "name": name_of,
    "task": name_of,
    "args": _arguments,
    "kwargs": _keywords,
    "options": _keywords,
    "jitter": not_negative,
    "misfire": one_of(*get_args(Misfire)),
    "grace": optional(not_negative),
    "most": count,
    "overlap": one_of(*get_args(Overlap)),
}
