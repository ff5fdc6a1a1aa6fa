"""Dates, times, time zones and delays."""

from __future__ import annotations

import calendar
import datetime
import random
import time as _time
import zoneinfo
from functools import cached_property
from typing import Any

__all__ = (
    "LocalTimezone",
    "add_seconds_to_datetime",
    "adjust_timestamp",
    "delta_resolution",
    "ffwd",
    "get_exponential_backoff_interval",
    "humanize_seconds",
    "is_naive",
    "localize",
    "make_aware",
    "maybe_iso8601",
    "maybe_make_aware",
    "maybe_timedelta",
    "rate",
    "remaining",
    "subtract_datetimes",
    "timezone",
    "to_utc",
    "utcoffset",
    "weekday",
)

WEEKDAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
RATE_UNITS = {"s": 0, "m": 1, "h": 2}  # powers of 60 seconds
UNITS = (("day", 86400.0), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0))

ZERO = datetime.timedelta(0)
SECOND = datetime.timedelta(seconds=1)
MINUTE = datetime.timedelta(minutes=1)
HOUR = datetime.timedelta(hours=1)
DAY = datetime.timedelta(days=1)

YEARMONTHS = {
    name: number
    for number, name in enumerate(
        ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1
    )
}


class LocalTimezone(datetime.tzinfo):
    """The machine's own time zone, as the C library knows it."""

    def utcoffset(self, dt: datetime.datetime | None) -> datetime.timedelta:
        return self._at(dt).utcoffset() or ZERO

    def dst(self, dt: datetime.datetime | None) -> datetime.timedelta:
        return datetime.timedelta(0, 3600) if self._broken_down(dt).tm_isdst > 0 else ZERO

    def tzname(self, dt: datetime.datetime | None) -> str:
        return self._at(dt).tzname() or ""

    def fromutc(self, dt: datetime.datetime) -> datetime.datetime:
        moment = dt.replace(tzinfo=datetime.timezone.utc).astimezone()
        return moment.replace(tzinfo=self)

    def _at(self, dt: datetime.datetime | None) -> datetime.datetime:
        naive = (dt or datetime.datetime.now()).replace(tzinfo=None)  # local is meant
        return naive.astimezone()

    def _broken_down(self, dt: datetime.datetime | None) -> _time.struct_time:
        return _time.localtime(self._at(dt).timestamp())

    def __repr__(self) -> str:
        return f"<LocalTimezone: {self.tzname(None)}>"


class _Zone:
    """Time zones: ``timezone.utc``, ``timezone.local``, ``timezone.get_timezone(name)``."""

    @cached_property
    def utc(self) -> datetime.tzinfo:
        return zoneinfo.ZoneInfo("UTC")

    @cached_property
    def local(self) -> datetime.tzinfo:
        return LocalTimezone()

    def get_timezone(self, zone: str | datetime.tzinfo) -> datetime.tzinfo:
        """A zone by name. Raises ``ZoneInfoNotFoundError``."""
        return zoneinfo.ZoneInfo(zone) if isinstance(zone, str) else zone

    def tz_or_local(self, tzinfo: datetime.tzinfo | str | None = None) -> datetime.tzinfo:
        return self.local if tzinfo is None else self.get_timezone(tzinfo)

    def to_local(
        self,
        dt: datetime.datetime,
        local: datetime.tzinfo | None = None,
        orig: datetime.tzinfo | None = None,
    ) -> datetime.datetime:
        """The same instant in zone ``local``; without a zone of its own it is meant in ``orig``."""
        if is_naive(dt):
            dt = make_aware(dt, orig or self.utc)
        return localize(dt, self.tz_or_local(local))

    def to_system(self, dt: datetime.datetime) -> datetime.datetime:
        """The same instant in the machine's zone."""
        return localize(dt, self.local)

    def to_local_fallback(self, dt: datetime.datetime) -> datetime.datetime:
        return self.to_local(dt)


timezone = _Zone()


# -- instants ------------------------------------------------------------------------------------


def is_naive(dt: datetime.datetime) -> bool:
    """Whether a datetime has no time zone."""
    return dt.tzinfo is None or dt.tzinfo.utcoffset(dt) is None


def make_aware(dt: datetime.datetime, tz: datetime.tzinfo) -> datetime.datetime:
    """A datetime without zone, as one of ``tz``. A time that the zone's clock leaves out, when it
    is put forward, is as much later."""
    aware = dt.replace(tzinfo=tz)
    return _shown(aware) if _is_imaginary(dt, tz) else aware


def _shown(moment: datetime.datetime) -> datetime.datetime:
    """What the zone's clock shows instead, where it is put forward over this moment."""
    from dateutil.tz import resolve_imaginary  # a twentieth of what `celery --help` takes

    return resolve_imaginary(moment)


def _is_imaginary(dt: datetime.datetime, tz: datetime.tzinfo) -> bool:
    """Whether the zone's clock never shows this time, since it is put forward over it."""
    if not isinstance(tz, zoneinfo.ZoneInfo):
        return False  # others need not be able to tell
    from dateutil.tz import datetime_exists  # as above

    try:
        return not datetime_exists(dt, tz)
    except ValueError:  # at the very end of the calendar
        return False


def localize(dt: datetime.datetime, tz: datetime.tzinfo) -> datetime.datetime:
    """The same instant in ``tz``."""
    return make_aware(dt, tz) if is_naive(dt) else dt.astimezone(tz)


def to_utc(dt: datetime.datetime) -> datetime.datetime:
    """The same instant in UTC; without zone, UTC is meant."""
    return localize(dt, timezone.utc)


def maybe_make_aware(
    dt: datetime.datetime, tz: datetime.tzinfo | str | None = None, naive_as_utc: bool = True
) -> datetime.datetime:
    """An aware datetime as it is; a naive one, which is meant in UTC or in ``tz``, in ``tz`` (UTC
    if not given)."""
    if not is_naive(dt):
        return dt
    zone = timezone.utc if tz is None else timezone.tz_or_local(tz)
    return localize(make_aware(dt, timezone.utc if naive_as_utc else zone), zone)


def maybe_iso8601(dt: datetime.datetime | str | None) -> datetime.datetime | None:
    """A datetime from ISO 8601 text; anything else as it is."""
    if not isinstance(dt, str):
        return dt or None
    return datetime.datetime.fromisoformat(dt.replace("Z", "+00:00"))


# -- durations -----------------------------------------------------------------------------------


def maybe_timedelta(delta: Any) -> Any:
    """Seconds as a ``timedelta``; anything else as it is."""
    return datetime.timedelta(seconds=delta) if isinstance(delta, (int, float)) else delta


def delta_resolution(dt: datetime.datetime, delta: datetime.timedelta) -> datetime.datetime:
    """``dt`` cut down to the largest unit of ``delta``: to its day, hour or minute."""
    seconds = max(delta.total_seconds(), 0)
    if seconds >= 86400:
        return dt.replace(hour=0, minute=0, second=0, microsecond=0)
    if seconds >= 3600:
        return dt.replace(minute=0, second=0, microsecond=0)
    if seconds >= 60:
        return dt.replace(second=0, microsecond=0)
    return dt


class ffwd:  # noqa: N801  # Celery's name
    """Moves a datetime forward to the given fields: ``now + ffwd(hour=3, minute=0)``."""

    def __init__(
        self,
        year: int | None = None,
        month: int | None = None,
        weeks: int = 0,
        weekday: int | None = None,
        day: int | None = None,
        hour: int | None = None,
        minute: int | None = None,
        second: int | None = None,
        microsecond: int | None = None,
        **kwargs: Any,
    ) -> None:
        self.weeks = weeks
        self.weekday = weekday
        clock = {"hour": hour, "minute": minute, "second": second, "microsecond": microsecond}
        fields = {"year": year, "month": month, "day": day, **clock}
        self.fields = {name: value for name, value in fields.items() if value is not None}
        self.days = 7 * weeks

    def __radd__(self, other: Any) -> Any:
        if not isinstance(other, datetime.date):
            return NotImplemented
        fields = dict(self.fields)
        if "day" in fields:  # the 31st of a shorter month is its last day
            year = fields.get("year", other.year)
            month = fields.get("month", other.month)
            fields["day"] = min(calendar.monthrange(year, month)[1], fields["day"])
        moved = other.replace(**fields) + datetime.timedelta(days=self.days)
        if self.weekday is not None:
            moved += datetime.timedelta(days=(7 - moved.isoweekday() + self.weekday) % 7)
        return moved

    def __repr__(self) -> str:
        fields = {**self.fields, "weeks": self.weeks}
        return f"ffwd({', '.join(f'{name}={value!r}' for name, value in fields.items())})"


def remaining(
    start: datetime.datetime,
    ends_in: datetime.timedelta | ffwd,
    now: datetime.datetime | None = None,
    relative: bool = False,
) -> datetime.timedelta:
    """How much time passes from ``now`` until ``start + ends_in``; negative once that is over.

    ``relative``: the end is first cut down to the resolution of ``ends_in``, on the clock of the
    zone that ``start`` is in; it stays after ``start``.
    """
    now = now or datetime.datetime.now(datetime.timezone.utc)
    if isinstance(ends_in, ffwd):
        end = start + ends_in
    elif relative and ends_in >= SECOND:
        end = _unit_end(start, ends_in)
    else:
        end = add_seconds_to_datetime(start, ends_in.total_seconds())
    return subtract_datetimes(end, now)


def _unit_end(start: datetime.datetime, interval: datetime.timedelta) -> datetime.datetime:
    """Where the day, hour, minute or second begins in which the interval ends."""
    if interval >= DAY:  # days are counted on the calendar
        midnight = delta_resolution(start + interval, interval)
        return min(_moments(midnight, start), key=_instant, default=midnight)
    end = add_seconds_to_datetime(start, interval.total_seconds())
    unit = next(size for size in (HOUR, MINUTE, SECOND) if interval >= size)
    # The clock may be put back over the beginning, or put forward over it: what counts is which
    # moment of those that the clock calls so is the last, or else the next one.
    shown = {end.replace(tzinfo=None)}
    for offset in (start.utcoffset(), end.utcoffset()):
        if offset is not None:
            shown.add(to_utc(end).replace(tzinfo=None) + offset)
    begins = [delta_resolution(each, unit).replace(microsecond=0) for each in shown]
    moments = [
        moment
        for begin in begins
        for wall in (begin, begin + unit)
        for moment in _moments(wall.replace(tzinfo=start.tzinfo), start)
    ]
    passed = [moment for moment in moments if _instant(moment) <= _instant(end)]
    return max(passed, key=_instant) if passed else min(moments, key=_instant)


def _moments(wall: datetime.datetime, after: datetime.datetime) -> list[datetime.datetime]:
    """The moments, one or two, at which the clock shows this time; or what it is put forward to."""
    found = [wall.replace(fold=fold) for fold in (0, 1)]
    if wall.tzinfo is not None:
        found = [_shown(moment) for moment in found]
    return [moment for moment in found if _instant(moment) > _instant(after)]


def _instant(dt: datetime.datetime) -> datetime.datetime:
    return dt if dt.tzinfo is None else dt.astimezone(datetime.timezone.utc)


def add_seconds_to_datetime(dt: datetime.datetime, seconds: float) -> datetime.datetime:
    """The moment so many seconds later, in the same zone, whatever its clock does in between."""
    if dt.tzinfo is None:
        return dt + datetime.timedelta(seconds=seconds)
    later = dt.astimezone(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)
    return later.astimezone(dt.tzinfo)


def subtract_datetimes(end: datetime.datetime, start: datetime.datetime) -> datetime.timedelta:
    """How much time passes between two moments, whatever the clock of their zone does. Where one
    of them has no zone, UTC is meant."""
    if is_naive(end) and is_naive(start):
        return end - start
    return _instant(_or_utc(end)) - _instant(_or_utc(start))


def _or_utc(dt: datetime.datetime) -> datetime.datetime:
    return dt.replace(tzinfo=datetime.timezone.utc) if is_naive(dt) else dt


def yearmonth(name: str) -> int:
    """The number of a month from its English name. Raises ``KeyError``."""
    abbreviation = name[:3].lower()
    if abbreviation not in YEARMONTHS:
        raise KeyError(name)
    return YEARMONTHS[abbreviation]


def rate(r: Any) -> float:
    """``"10/m"`` as runs a second; a number as it is."""
    if not r:
        return 0.0
    if not isinstance(r, str):
        return float(r)
    runs, _, unit = r.partition("/")
    often = float(runs or 0)
    for _ in range(RATE_UNITS[unit or "s"]):
        often /= 60.0
    return often


def weekday(name: str) -> int:
    """The number of a weekday, 0 being Sunday: ``weekday("mon")``. Raises ``KeyError``."""
    short = name[:3].lower()
    if short not in WEEKDAYS:
        raise KeyError(name)
    return WEEKDAYS.index(short)


def humanize_seconds(
    secs: float, prefix: str = "", sep: str = "", now: str = "now", microseconds: bool = False
) -> str:
    """A duration in words: ``1.50 hours``."""
    secs = float(f"{float(secs):.2f}")
    for unit, size in UNITS:
        if secs >= size:
            amount = secs / size
            ending = "" if amount == 1 else "s"
            return f"{prefix}{sep}{amount:.2f} {unit}{ending}"
    if microseconds and secs > 0.0:
        return f"{prefix}{sep}{secs:.2f} seconds"
    return now


def utcoffset(time: Any = _time, localtime: Any = _time.localtime) -> float:
    """Hours by which local time is behind UTC; India's are -5.5."""
    return float((time.altzone if localtime().tm_isdst else time.timezone) / 3600)


def adjust_timestamp(ts: float, offset: float, here: Any = utcoffset) -> float:
    """A timestamp of a machine with another offset, as one of here."""
    return float(ts - (offset - here()) * 3600)


def get_exponential_backoff_interval(
    factor: float, retries: int, maximum: float, full_jitter: bool = False
) -> float:
    """Seconds before retry number ``retries``: ``factor`` times a power of two, at most
    ``maximum``; with ``full_jitter`` a random number from 0 to that."""
    countdown: float = min(maximum, factor * 2.0 ** min(retries, 1000))
    if full_jitter:
        countdown = random.randrange(int(countdown) + 1)
    return max(0, int(countdown) if countdown == int(countdown) else countdown)
