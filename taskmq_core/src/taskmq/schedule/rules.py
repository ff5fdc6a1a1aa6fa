"""When something is due: pure functions from one instant to the next."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from taskmq.checks import nearest, positive
from taskmq.errors import ConfigError

from .fields import parse
from .zoned import next_instant

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

__all__ = ["At", "Cron", "Every", "Rule"]

UTC = timezone.utc
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)


class Cron(msgspec.Struct, frozen=True, tag="cron"):
    """Due at the wall times of a cron expression in a zone (an IANA name).

    Five fields: minute, hour, day of month, month, day of week (0 and 7 are Sunday), each with
    ``*``, ``a``, ``a-b``, ``a,b`` and a step ``/n``; names of months and weekdays; ``L`` for the
    last day of the month, ``friL`` for its last Friday, ``fri#2`` for its second one; or an alias
    such as ``@daily``. If both day fields are restricted, either is enough, unless one begins
    with a star (the rule of Vixie cron). Where clocks change, an expression without a star in front
    of minute and hour runs once on each of its days, at the end of a gap if need be; any other one
    follows the clock.

    Raises `ConfigError` for an expression or zone that is none.
    """

    expression: str
    tz: str = "UTC"

    def __post_init__(self) -> None:
        parse(self.expression)
        _zone(self.tz)

    def next_after(self, instant: datetime) -> datetime | None:
        """The first due instant later than ``instant`` (aware), in the zone; ``None`` if there is
        none within 45 years."""
        zone = _zone(self.tz)
        found = next_instant(parse(self.expression), instant, zone)
        return None if found is None else found.astimezone(zone)

    def __str__(self) -> str:
        return self.expression if self.tz == "UTC" else f"{self.expression} ({self.tz})"


class Every(msgspec.Struct, frozen=True, tag="every"):
    """Due every so many ``seconds`` of elapsed time, counted from ``anchor`` (aware; 1970 by
    default), so that every process that counts comes to the same instants. Nothing is due before
    the anchor.

    Raises `ConfigError`.
    """

    seconds: float
    anchor: datetime = EPOCH

    def __post_init__(self) -> None:
        positive("Every.seconds", self.seconds)
        if self.seconds < MICROSECOND.total_seconds():
            raise ConfigError(f"Every.seconds must be a microsecond at least, got {self.seconds!r}")
        _aware("Every.anchor", self.anchor)

    def next_after(self, instant: datetime) -> datetime | None:
        """The first due instant later than ``instant`` (aware), in UTC."""
        if instant < self.anchor:
            return self.anchor.astimezone(UTC)
        period = round(self.seconds * 1e6)
        passed = (instant - self.anchor) // MICROSECOND
        turns = passed // period + 1
        return (self.anchor + turns * period * MICROSECOND).astimezone(UTC)

    def __str__(self) -> str:
        return f"every {self.seconds:g} s"


class At(msgspec.Struct, frozen=True, tag="at"):
    """Due once, at an aware instant. Raises `ConfigError` for a naive one."""

    instant: datetime

    def __post_init__(self) -> None:
        _aware("At.instant", self.instant)

    def next_after(self, instant: datetime) -> datetime | None:
        """The instant itself as long as it is later than ``instant`` (aware)."""
        return self.instant if self.instant > instant else None

    def __str__(self) -> str:
        return f"at {self.instant.isoformat()}"


Rule = Cron | Every | At


@lru_cache(maxsize=256)
def _zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones  # as in `config`

    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        known = available_timezones()
        if not known:
            raise ConfigError(
                f"time zone {name!r}: this machine has no time zones; install the tzdata package "
                "of your system or of Python"
            ) from None
        raise ConfigError(f"time zone {name!r} is not known{nearest(name, known)}") from None


def _aware(name: str, value: object) -> None:
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise ConfigError(f"{name} must be a datetime with a time zone, got {value!r}")
