"""What a cron expression means where clocks change, found out the slow way: every second or minute
of the days around a change is asked for its wall time.

Nothing of the engine is used here but the policy that its documentation states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, timezone
from functools import lru_cache
from zoneinfo import ZoneInfo

UTC = timezone.utc
MINUTE = timedelta(minutes=1)
DAY = timedelta(days=1)
AROUND = timedelta(hours=34)
ZONES = (
    "America/New_York",
    "Europe/Paris",
    "Australia/Lord_Howe",  # by 30 minutes
    "Africa/Casablanca",  # around Ramadan, twice within weeks
    "America/Havana",  # at midnight
)
FIRST, LAST = 1900, 2100


@dataclass(frozen=True)
class Change:
    """The instant from which on a zone has another offset."""

    zone: str
    at: datetime
    before: timedelta
    after: timedelta

    @property
    def is_gap(self) -> bool:
        return self.after > self.before

    @property
    def walls(self) -> tuple[datetime, datetime]:
        """The wall times that are left out, or come twice: from, and until before."""
        naive = self.at.replace(tzinfo=None)
        first, last = sorted((naive + self.before, naive + self.after))
        return first, last


@lru_cache
def changes(zone: str, first: int = FIRST, last: int = LAST) -> tuple[Change, ...]:
    """Every change of the offset in these years."""
    known = ZoneInfo(zone)
    found = []
    instant = datetime(first, 1, 1, tzinfo=UTC)
    offset = offset_at(instant, known)
    while instant.year <= last:
        following = instant + DAY
        new = offset_at(following, known)
        if new != offset:
            low, high = 0, 86_400
            while high - low > 1:
                middle = (low + high) // 2
                if offset_at(instant + timedelta(seconds=middle), known) == offset:
                    low = middle
                else:
                    high = middle
            found.append(Change(zone, instant + timedelta(seconds=high), offset, new))
        instant, offset = following, new
    return tuple(found)


def offset_at(instant: datetime, zone: ZoneInfo) -> timedelta:
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None
    return offset


@dataclass(frozen=True)
class Field:
    """One of the five: what it allows, and how it is written."""

    text: str
    values: frozenset[int]

    @property
    def has_star(self) -> bool:
        return self.text.startswith("*")


@dataclass(frozen=True)
class Expression:
    minute: Field
    hour: Field
    day: Field
    month: Field
    weekday: Field

    def __str__(self) -> str:
        fields = (self.minute, self.hour, self.day, self.month, self.weekday)
        return " ".join(field.text for field in fields)

    @property
    def follows_clock(self) -> bool:
        return self.minute.has_star or self.hour.has_star

    def fits(self, wall: datetime) -> bool:
        return (
            wall.minute in self.minute.values
            and wall.hour in self.hour.values
            and wall.month in self.month.values
            and self.fits_day(wall.date())
        )

    def fits_day(self, day: date) -> bool:
        fits = (day.day in self.day.values, day.isoweekday() % 7 in self.weekday.values)
        return all(fits) if self.day.has_star or self.weekday.has_star else any(fits)


def expression(text: str) -> Expression:
    """Of fields that are stars, numbers, ranges or lists, with steps."""
    ranges = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 6))
    return Expression(*(field(part, *r) for part, r in zip(text.split(), ranges, strict=True)))


def field(text: str, first: int, last: int) -> Field:
    values: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        begin, _, end = ("", "", "") if span == "*" else span.partition("-")
        low = int(begin or first)
        high = int(end or (begin or last))
        values.update(range(low, high + 1, int(step or 1)))
    return Field(text, frozenset(values))


class Days:
    """The time from one instant to another, walked through. ``change`` is when the offset does, if
    it does."""

    def __init__(
        self, zone: str, begin: datetime, end: datetime, change: datetime | None = None
    ) -> None:
        self.begin, self.end = begin, end
        known, middle = ZoneInfo(zone), change or end
        self.walk = (*_walk(known, begin, middle), *_walk(known, middle, end))
        """Every instant at which a wall minute begins, or the offset changes; its wall time."""
        self._shown: dict[datetime, datetime] = {}
        for at, wall in self.walk:
            self._shown.setdefault(wall, at)

    def runs(self, wanted: Expression) -> list[datetime]:
        if wanted.follows_clock:
            return [at for at, wall in self.walk if wall.second == 0 and wanted.fits(wall)]
        return sorted({at for wall in self._walls(wanted) if (at := self._first(wall))})

    def _walls(self, wanted: Expression) -> Iterator[datetime]:
        """All wall times that the expression names, whether they exist or not."""
        day = self.walk[0][1].date()
        while day <= self.walk[-1][1].date():
            if day.month in wanted.month.values and wanted.fits_day(day):
                for hour in wanted.hour.values:
                    for minute in wanted.minute.values:
                        yield datetime(day.year, day.month, day.day, hour, minute)
            day += DAY

    def _first(self, wanted: datetime) -> datetime | None:
        """When the clock shows it first, or else something later for the first time."""
        if wanted in self._shown:
            return self._shown[wanted]
        if wanted < self.walk[0][1]:
            return None  # before these days
        return next((at for at, wall in self.walk if wall > wanted), None)


def _walk(zone: ZoneInfo, begin: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """With one offset all the way: some of old have seconds."""
    at = begin
    while at < end:
        wall = at.astimezone(zone).replace(tzinfo=None, fold=0)
        yield at, wall
        at += MINUTE if not wall.second else timedelta(seconds=60 - wall.second)


@lru_cache(maxsize=64)
def around(change: Change) -> Days:
    return Days(change.zone, change.at - AROUND, change.at + AROUND, change.at)


def kinds_of(change: Change) -> Sequence[tuple[str, str]]:
    """Kinds of expressions, with one of each that meets this change."""
    first, last = change.walls
    middle = first + (last - first) / 2
    minute, hour = middle.minute, middle.hour
    step = max(5, int((last - first) / MINUTE) // 3)
    several = ",".join(str(n) for n in range(0, 60, step))
    return (
        ("a time in it", f"{minute} {hour} * * *"),
        ("several times in it", f"{several} {hour} * * *"),
        ("the same, with a star in front", f"*/{step} {hour} * * *"),
        ("when it begins", f"{first.minute} {first.hour} * * *"),
        ("when it ends", f"{last.minute} {last.hour} * * *"),
        ("in it and when it ends", _both(middle, last)),
        ("every hour", "0 * * * *"),
        ("every so many minutes", f"*/{step} * * * *"),
        ("every second hour", "0 */2 * * *"),
        ("midnight", "0 0 * * *"),
    )


def _both(one: datetime, other: datetime) -> str:
    minutes = ",".join(map(str, sorted({one.minute, other.minute})))
    hours = ",".join(map(str, sorted({one.hour, other.hour})))
    return f"{minutes} {hours} * * *"
