"""Limits that a job brings along: how many at once, how many per time. Pure values and arithmetic.

A limit has a *gate*, a name that all jobs under it share in one store. A concurrency gate is as
open as fewer than ``amount`` jobs run behind it. A rate gate goes by the generic cell rate
algorithm: its whole memory is one instant, when the next job would be due if all came evenly
spaced; a job may come up to ``burst - 1`` intervals earlier.
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from .checks import count, positive
from .errors import ConfigError

__all__ = [
    "Capacity",
    "Fair",
    "Limit",
    "Rate",
    "RateScope",
    "check_rate",
    "check_template",
    "concurrency_gate",
    "following",
    "opens_at",
    "rate_of",
    "render",
    "room",
    "template_names",
]

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
RATE = re.compile(r"\s*(\d+)\s*/\s*([smhd])\s*")
SLACK = 0.1
"""Seconds' worth of jobs that may come at once unless a burst is given: enough for batches."""
LONGEST_KEY = 500

RateScope = Literal["fleet", "worker"]
"""Who keeps a rate: the store, over all workers, or each worker for itself."""


class Limit(msgspec.Struct, frozen=True, omit_defaults=True):
    """``concurrency``: at most ``amount`` jobs with this key run at once. ``rate``: at most
    ``amount`` start in ``per`` seconds, ``burst`` of them at once after a pause."""

    kind: Literal["concurrency", "rate"]
    key: str
    amount: int = 1
    per: float = 0.0
    burst: int = 1

    def __post_init__(self) -> None:
        if self.amount < 1 or self.burst < 1 or (self.kind == "rate" and not self.per > 0):
            raise ValueError(f"no such limit: {self.amount} per {self.per} s, burst {self.burst}")

    @property
    def gate(self) -> str:
        """The name that it shares with the limits of other jobs."""
        return f"{self.kind}:{self.key}"

    @property
    def interval(self) -> float:
        """Seconds between two jobs that come evenly spaced."""
        return self.per / self.amount


class Capacity(msgspec.Struct, frozen=True):
    """How many jobs may wait in a queue, and what becomes of one more."""

    limit: int
    overflow: Literal["reject", "drop_oldest"] = "reject"


class Fair(msgspec.Struct, frozen=True, omit_defaults=True):
    """Whose turn in a queue a job takes, and the size of his share."""

    key: str
    weight: float = 1.0


def concurrency_gate(limits: Iterable[Limit]) -> str | None:
    """The gate that a job with these limits runs behind."""
    return next((limit.gate for limit in limits if limit.kind == "concurrency"), None)


# -- the arithmetic of a rate --------------------------------------------------------------------


def opens_at(limit: Limit, until: float) -> float:
    """When a rate gate lets the next job pass; ``until`` is its memory."""
    return until - (limit.burst - 1) * limit.interval


def room(limit: Limit, until: float, now: float) -> int:
    """How many jobs a rate gate would let pass now."""
    early = now - opens_at(limit, until)
    return 0 if early < 0 else min(limit.burst, int(early / limit.interval) + 1)


def following(limit: Limit, until: float, now: float) -> float:
    """A rate gate's memory after one more job has passed."""
    return max(until, now) + limit.interval


# -- how people write them -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Rate:
    """``amount`` starts in ``per`` seconds, evenly spaced, except that after a pause ``burst`` may
    come at once. ``None``: what comes in a tenth of a second, at least 1. Raises `ConfigError`.

    >>> Rate.parse("100/m") == Rate(100, per=60.0)
    True
    """

    amount: int
    per: float = 1.0
    burst: int | None = None

    def __post_init__(self) -> None:
        count("Rate.amount", self.amount)
        positive("Rate.per", self.per)
        if self.burst is not None:
            count("Rate.burst", self.burst)

    @classmethod
    def parse(cls, text: str, name: str = "rate") -> Rate:
        """A rate as text: ``10/s``, ``100/m``, ``5/h``, ``1000/d``. Raises `ConfigError`."""
        match = RATE.fullmatch(text)
        if match is None or int(match[1]) < 1:
            raise ConfigError(
                f"{name} must be like '10/s', '100/m', '5/h' or '1000/d', or a Rate, got {text!r}"
            )
        return cls(int(match[1]), UNITS[match[2]])

    def limit(self, key: str) -> Limit:
        """The limit that a job with this key brings along."""
        burst = self.burst or max(1, int(self.amount / self.per * SLACK))
        return Limit("rate", key, self.amount, self.per, burst)


def rate_of(rate: str | Rate) -> Rate:
    """A rate that was checked before, as a value."""
    return Rate.parse(rate) if isinstance(rate, str) else rate


def check_rate(name: str, value: object) -> None:
    """A rate, as text or as a `Rate`."""
    if isinstance(value, str):
        Rate.parse(value, name)
    elif not isinstance(value, Rate):
        raise ConfigError(f"{name} must be like '100/m', or a Rate, got {value!r}")


# -- keys from arguments -------------------------------------------------------------------------


def template_names(template: str) -> list[str]:
    """The arguments that a template names, e.g. ``user_id`` in ``"user:{user_id}"``."""
    fields = [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]
    return [re.split(r"[.\[]", field, maxsplit=1)[0] for field in fields]


def check_template(name: str, value: object) -> None:
    """Text with arguments by name in braces."""
    try:
        if not isinstance(value, str) or not value:
            raise ValueError
        if all(argument.isidentifier() for argument in template_names(value)):
            return
    except ValueError:
        pass
    raise ConfigError(
        f"{name} must be text with arguments by name, such as 'user:{{user_id}}', got {value!r}"
    )


def render(name: str, template: str, arguments: Mapping[str, object]) -> str:
    """The key that a template gives for some arguments. Raises `ConfigError`."""
    try:
        key = template.format_map(arguments)
    except Exception as error:
        wrong = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{name}={template!r} does not fit the arguments: {wrong}") from None
    if not 0 < len(key) <= LONGEST_KEY:
        raise ConfigError(
            f"{name}={template!r} gives a key of {len(key)} characters; 1 to {LONGEST_KEY} can be"
        )
    return key
