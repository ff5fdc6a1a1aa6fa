"""Cron expressions: what is written in the five fields, and which wall times they name."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache

from taskmq.checks import nearest
from taskmq.errors import ConfigError

__all__ = ["Fields", "parse"]

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
HORIZON = 45
"""Years. Every date that can come comes sooner: the 29th of February on a given weekday returns
after 40 at most."""
LAST = -1
"""In the place of a day: the last of the month; in that of a week: the last such weekday in it."""


def _numbered(names: str, first: int) -> dict[str, int]:
    return {name: number for number, name in enumerate(names.split(), first)}


@dataclass(frozen=True)
class _Field:
    name: str
    first: int
    last: int
    names: Mapping[str, int]


MINUTE = _Field("minute", 0, 59, {})
HOUR = _Field("hour", 0, 23, {})
DAY = _Field("day of month", 1, 31, {})
MONTH = _Field(
    "month", 1, 12, _numbered("jan feb mar apr may jun jul aug sep oct nov dec", first=1)
)
WEEKDAY = _Field("day of week", 0, 7, _numbered("sun mon tue wed thu fri sat", first=0))


@dataclass(frozen=True)
class Fields:
    """A parsed expression. All numbers as in cron: weekdays from 0 for Sunday.

    ``nth`` has pairs of a weekday and the week of the month that it counts in, from 1; `LAST`
    there and in ``days`` is the last one. ``both_days`` says that a date has to fit both day
    fields, because one of them begins with a star (the rule of Vixie cron); otherwise either is
    enough. ``follows_clock`` says that minute or hour begin with a star: such an expression means
    "every so often", not "at that time".
    """

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    nth: frozenset[tuple[int, int]]
    both_days: bool
    follows_clock: bool

    def next_wall(self, start: datetime) -> datetime | None:
        """The first wall time from ``start`` on, itself included; naive, at a whole minute.
        ``None`` if there is none within 45 years."""
        day = start.date()
        earliest = time(start.hour, start.minute)
        end = min(start.year + HORIZON, 9998)
        while day.year <= end:
            if day.month not in self.months:
                day, earliest = _first_of_next_month(day), time()
                continue
            if self._has(day):
                found = self._next_time(earliest)
                if found is not None:
                    return datetime.combine(day, found)
            day, earliest = day + timedelta(days=1), time()
        return None

    def _next_time(self, earliest: time) -> time | None:
        for hour in self.hours:
            if hour == earliest.hour:
                for minute in self.minutes:
                    if minute >= earliest.minute:
                        return time(hour, minute)
            elif hour > earliest.hour:
                return time(hour, self.minutes[0])
        return None

    def _has(self, day: date) -> bool:
        if self.both_days:
            return self._has_day(day) and self._has_weekday(day)
        return self._has_day(day) or self._has_weekday(day)

    def _has_day(self, day: date) -> bool:
        return day.day in self.days or (LAST in self.days and day.day == _length(day))

    def _has_weekday(self, day: date) -> bool:
        weekday = day.isoweekday() % 7
        if weekday in self.weekdays:
            return True
        if not self.nth:
            return False
        week = (day.day - 1) // 7 + 1
        is_last = day.day + 7 > _length(day)
        return (weekday, week) in self.nth or (is_last and (weekday, LAST) in self.nth)


@lru_cache(maxsize=1024)
def parse(expression: str) -> Fields:
    """Raises `ConfigError`: which field, what is wrong in it, what would be right."""
    text = expression.strip().lower()
    if text.startswith("@"):
        text = _alias(expression, text)
    parts = text.split()
    if len(parts) != 5:
        raise ConfigError(
            f"cron expression {expression!r}: wants 5 fields (minute hour day-of-month month "
            f"day-of-week), got {len(parts)}"
        )
    try:
        fields = _fields(*parts)
    except ValueError as error:
        raise ConfigError(f"cron expression {expression!r}: {error}") from None
    # From a leap year that begins a cycle of them; what is not found from there never comes.
    if fields.next_wall(datetime(2000, 1, 1)) is None:
        raise ConfigError(f"cron expression {expression!r}: there is no such date")
    return fields


def _alias(expression: str, text: str) -> str:
    if text == "@reboot":
        raise ConfigError(
            "cron expression '@reboot': a schedule does not know when machines start; submit the "
            "task where that is known"
        )
    if text not in ALIASES:
        raise ConfigError(f"cron expression {expression!r}: no alias{nearest(text, ALIASES)}")
    return ALIASES[text]


def _fields(minute: str, hour: str, day: str, month: str, weekday: str) -> Fields:
    """Raises `ValueError` with what is wrong."""
    days = {LAST if item == "l" else item for item in _items(DAY, day, plain={"l"})}
    weekdays: set[int] = set()
    nth: set[tuple[int, int]] = set()
    for part in weekday.split(","):
        found = _nth(part)
        if found is not None:
            nth.add(found)
        else:
            weekdays.update(value % 7 for value in _values(WEEKDAY, part))
    return Fields(
        minutes=tuple(sorted(_numbers(MINUTE, minute))),
        hours=tuple(sorted(_numbers(HOUR, hour))),
        days=frozenset(value for value in days if isinstance(value, int)),
        months=frozenset(_numbers(MONTH, month)),
        weekdays=frozenset(weekdays),
        nth=frozenset(nth),
        both_days=day.startswith("*") or weekday.startswith("*"),
        follows_clock=minute.startswith("*") or hour.startswith("*"),
    )


def _numbers(field: _Field, text: str) -> set[int]:
    return {value for part in text.split(",") for value in _values(field, part)}


def _items(field: _Field, text: str, plain: set[str]) -> Iterator[int | str]:
    for part in text.split(","):
        if part in plain:
            yield part
        else:
            yield from _values(field, part)


def _values(field: _Field, part: str) -> range:
    """Of ``*``, ``a``, ``a-b``, and any of them with a step behind it; ``a/n`` goes on to the
    field's end."""
    span, slash, step = part.partition("/")
    first, last = _span(field, part, span)
    if not slash:
        return range(first, last + 1)
    if not step.isdecimal() or not 1 <= int(step) <= field.last:
        raise ValueError(
            f"{part!r} in {field.name}: the step must be a whole number from 1 to {field.last}"
        )
    if span != "*" and "-" not in span:
        last = field.last
    return range(first, last + 1, int(step))


def _span(field: _Field, part: str, span: str) -> tuple[int, int]:
    if span == "*":
        return field.first, field.last
    start, dash, end = span.partition("-")
    first = _value(field, part, start)
    last = _value(field, part, end) if dash else first
    if field is WEEKDAY and dash and last == 0 < first:
        last = 7  # a week may end with Sunday
    if last < first:
        raise ValueError(
            f"{part!r} in {field.name}: the range ends before it begins; write it as two"
        )
    return first, last


def _value(field: _Field, part: str, text: str) -> int:
    if text in field.names:
        return field.names[text]
    if not text.isdecimal():
        hint = nearest(text, field.names) if text else ""
        where = "" if text == part else f" of {part!r}"
        raise ValueError(f"{text!r}{where} in {field.name} is nothing that is known there{hint}")
    if not field.first <= int(text) <= field.last:
        raise ValueError(
            f"{text} in {field.name} is out of range, which is {field.first} to {field.last}"
        )
    return int(text)


def _nth(part: str) -> tuple[int, int] | None:
    """Of ``fri#2`` (the second Friday) and ``friL`` (the last one)."""
    name, hash, week = part.partition("#")
    if hash:
        if not week.isdecimal() or not 1 <= int(week) <= 5:
            raise ValueError(f"{part!r} in day of week: '#' wants a week of the month, 1 to 5")
        return _value(WEEKDAY, part, name) % 7, int(week)
    if part.endswith("l") and len(part) > 1:
        return _value(WEEKDAY, part, part[:-1]) % 7, LAST
    return None


def _length(day: date) -> int:
    return monthrange(day.year, day.month)[1]


def _first_of_next_month(day: date) -> date:
    return date(day.year + day.month // 12, day.month % 12 + 1, 1)
