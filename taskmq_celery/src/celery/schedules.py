"""Schedules: when something is due, as plain data and arithmetic.

>>> crontab(minute=0, hour="9-17", day_of_week="mon-fri")
<crontab: 0 9-17 * * mon-fri (m/h/dM/MY/d)>
>>> schedule(30.0)
<freq: 30.00 seconds>
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from celery._state import get_current_app
from celery.exceptions import ImproperlyConfigured
from celery.utils.time import (
    add_seconds_to_datetime,
    ffwd,
    humanize_seconds,
    localize,
    maybe_make_aware,
    maybe_timedelta,
    remaining,
    timezone,
    to_utc,
    weekday,
)

if TYPE_CHECKING:
    from celery.app.base import Celery

__all__ = ("ParseException", "crontab", "crontab_parser", "maybe_schedule", "schedule", "solar")

MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
DAYS_IN_MONTH = dict(
    zip(range(1, 13), (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31), strict=True)
)
MAX_YEARS = 12
"""How far a crontab looks ahead: over a leap day that a turn of the century leaves out."""

Cronspec = int | str | Iterable[int]


class schedstate(NamedTuple):  # noqa: N801  # Celery's name
    """Whether something is due, and in how many seconds to look again."""

    is_due: bool
    next: float


class ParseException(Exception):
    """A crontab field that is no crontab field."""


class BaseSchedule:
    """Base of schedules. ``nowfun`` gives the current time (the app's clock if not given)."""

    def __init__(
        self, nowfun: Callable[[], datetime.datetime] | None = None, app: Celery | None = None
    ) -> None:
        self.nowfun = nowfun
        self._app = app

    @property
    def app(self) -> Celery:
        return self._app or get_current_app()

    @app.setter
    def app(self, app: Celery) -> None:
        self._app = app

    def now(self) -> datetime.datetime:
        """The current time."""
        return (self.nowfun or self.app.now)()

    @cached_property
    def tz(self) -> datetime.tzinfo:
        """The time zone that the schedule is meant in: the app's."""
        return self.app.timezone

    @cached_property
    def utc_enabled(self) -> bool:
        return bool(self.app.conf.enable_utc)

    def to_local(self, dt: datetime.datetime) -> datetime.datetime:
        """As it is; without ``enable_utc`` an aware time, a naive one being the machine's."""
        return dt if self.utc_enabled else timezone.to_local_fallback(dt)

    def maybe_make_aware(
        self, dt: datetime.datetime, naive_as_utc: bool = True
    ) -> datetime.datetime:
        """An aware datetime: a naive one is put into the schedule's zone."""
        return maybe_make_aware(dt, self.tz, naive_as_utc=naive_as_utc)

    def _local(self, dt: datetime.datetime) -> datetime.datetime:
        """The same instant as an aware datetime in the schedule's zone."""
        return localize(self.maybe_make_aware(dt), self.tz)

    def remaining_estimate(self, last_run_at: datetime.datetime) -> datetime.timedelta:
        """How long until it is due, if it ran last at ``last_run_at``; negative once it is."""
        raise NotImplementedError(f"{type(self).__name__} must define remaining_estimate()")

    def is_due(self, last_run_at: datetime.datetime) -> Any:
        """Whether it is due, if it ran last at ``last_run_at``, and when to look again."""
        raise NotImplementedError(f"{type(self).__name__} must define is_due()")

    def __eq__(self, other: object) -> bool:
        if isinstance(other, BaseSchedule):
            return other.nowfun == self.nowfun
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # schedules can be changed


def cronfield(s: str | None) -> str:
    """A field of a crontab as it is written."""
    return "*" if s is None else s


class schedule(BaseSchedule):  # noqa: N801  # Celery's name
    """Due every ``run_every`` (seconds or ``timedelta``).

    ``relative`` counts in whole units: every two minutes means at full minutes.
    """

    relative: bool = False

    def __init__(
        self,
        run_every: float | datetime.timedelta | None = None,
        relative: bool = False,
        nowfun: Callable[[], datetime.datetime] | None = None,
        app: Celery | None = None,
    ) -> None:
        self.run_every: datetime.timedelta = maybe_timedelta(run_every)
        self.relative = relative
        super().__init__(nowfun=nowfun, app=app)

    def remaining_estimate(self, last_run_at: datetime.datetime) -> datetime.timedelta:
        last, now = self._local(last_run_at), self._local(self.now())
        return remaining(last, self.run_every, now, self.relative)

    def is_due(self, last_run_at: datetime.datetime) -> Any:
        left = self.remaining_estimate(self._local(last_run_at)).total_seconds()
        if left > 0:
            return schedstate(False, left)
        return schedstate(True, self._next_check() if self.relative else self.seconds)

    def _next_check(self) -> float:
        """Seconds until a relative schedule is due again, if it runs now."""
        now = self._local(self.now())
        return max(remaining(now, self.run_every, now, relative=True).total_seconds(), 0)

    @property
    def seconds(self) -> float:
        """The interval in seconds."""
        return max(self.run_every.total_seconds(), 0)

    @property
    def human_seconds(self) -> str:
        """The interval in words."""
        return humanize_seconds(self.seconds)

    def __repr__(self) -> str:
        return f"<freq: {self.human_seconds}>"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, schedule):
            return self.run_every == other.run_every
        return self.run_every == other

    __hash__ = None  # schedules can be changed

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.run_every, self.relative, self.nowfun)


class crontab_parser:  # noqa: N801  # Celery's name
    """Reads one field of a crontab: ``*``, ``*/5``, ``1-10/2``, ``mon-fri``, ``1,15,30-35``.

    >>> sorted(crontab_parser(60).parse("*/15"))
    [0, 15, 30, 45]

    ``max_`` values from ``min_`` on are allowed. A range may go over the end: ``fri-mon``.
    """

    ParseException = ParseException

    PART = re.compile(r"(?:(?P<star>\*)|(?P<first>\w+)(?:-(?P<last>\w+))?)(?:/(?P<step>\w+))?")

    def __init__(self, max_: int = 60, min_: int = 0) -> None:
        self.min_ = min_
        self.count = max_
        self.max_ = max_ + min_ - 1

    def parse(self, spec: str) -> set[int]:
        """The values that a field allows. Raises `ParseException` or ``ValueError``."""
        found: set[int] = set()
        for part in spec.split(","):
            found.update(self._values(part.strip()))
        return found

    def _values(self, part: str) -> list[int]:
        if not part:
            raise ParseException("empty part")
        if part.startswith("-"):
            raise ParseException(f"negative numbers are not supported: {part!r}")
        if part == "*/":
            raise ParseException(f"a step is missing: {part!r}")
        match = self.PART.fullmatch(part)
        if match is None or (match["step"] and not (match["star"] or match["last"])):
            raise ValueError(f"Invalid weekday literal {part!r}.")
        step = self._number(match["step"]) if match["step"] else 1
        if step == 0:
            raise ValueError("slice step cannot be zero")
        if match["star"]:
            return list(range(self.min_, self.max_ + 1, step))
        first = self._number(match["first"])
        if match["last"] is None:
            return [self._checked(first)]
        last = self._number(match["last"])
        self._checked(first)
        self._checked(last)
        if last < first:
            last += self.count
        return [
            (value - self.min_) % self.count + self.min_ for value in range(first, last + 1, step)
        ]

    def _number(self, text: str) -> int:
        if text.isdigit():
            return int(text)
        short = text[:3].lower()
        if self.min_ == 1 and self.max_ == 12 and short in MONTHS:
            return MONTHS.index(short) + 1
        try:
            return weekday(text)
        except KeyError:
            raise ValueError(f"Invalid weekday literal {text!r}.") from None

    def _checked(self, value: int) -> int:
        if value > self.max_:
            raise ValueError(f"Invalid end range: {value} > {self.max_}.")
        if value < self.min_:
            raise ValueError(f"Invalid beginning range: {value} < {self.min_}.")
        return value


class crontab(BaseSchedule):  # noqa: N801  # Celery's name
    """Due at the minutes that a crontab line allows, in the app's time zone.

    Each field is a number, a set of numbers, or text as in `crontab_parser`; the attributes of
    the same names are the sets that they mean. All fields must allow a minute (in cron, one of
    the two day fields is enough).

    A time that a change to summer time leaves out comes one hour later; one that the change back
    brings twice comes once.
    """

    def __init__(
        self,
        minute: Cronspec = "*",
        hour: Cronspec = "*",
        day_of_week: Cronspec = "*",
        day_of_month: Cronspec = "*",
        month_of_year: Cronspec = "*",
        **kwargs: Any,
    ) -> None:
        self._orig_minute = _kept(minute)
        self._orig_hour = _kept(hour)
        self._orig_day_of_week = _kept(day_of_week)
        self._orig_day_of_month = _kept(day_of_month)
        self._orig_month_of_year = _kept(month_of_year)
        self.minute = self._expand_cronspec(self._orig_minute, 60)
        self.hour = self._expand_cronspec(self._orig_hour, 24)
        self.day_of_week = self._expand_cronspec(self._orig_day_of_week, 7)
        self.day_of_month = self._expand_cronspec(self._orig_day_of_month, 31, 1)
        self.month_of_year = self._expand_cronspec(self._orig_month_of_year, 12, 1)
        longest = max((DAYS_IN_MONTH[month] for month in self.month_of_year), default=0)
        if min(self.day_of_month, default=32) > longest:
            raise ValueError(
                f"Invalid crontab: day_of_month {day_of_month!r} never occurs in month_of_year "
                f"{month_of_year!r}."
            )
        super().__init__(**kwargs)

    @classmethod
    def from_string(cls, crontab: str) -> crontab:
        """A crontab line in the order of cron: minute, hour, day of month, month, day of week."""
        minute, hour, day_of_month, month_of_year, day_of_week = crontab.split()
        return cls(minute, hour, day_of_week, day_of_month, month_of_year)

    @staticmethod
    def _expand_cronspec(cronspec: Any, max_: int, min_: int = 0) -> set[int]:
        if isinstance(cronspec, int):
            values = {cronspec}
        elif isinstance(cronspec, str):
            values = crontab_parser(max_, min_).parse(cronspec)
        elif isinstance(cronspec, Iterable):
            values = set(cronspec)
        else:
            raise TypeError(
                f"a crontab field is a number, text or several numbers, not {cronspec!r} "
                f"({type(cronspec).__name__})"
            )
        for value in values:
            if not min_ <= value < max_ + min_:
                raise ValueError(
                    f"Invalid crontab pattern.  Valid range is {min_}-{max_ + min_ - 1}. "
                    f"{value!r} was found."
                )
        return values

    # -- when --------------------------------------------------------------------------------

    def remaining_estimate(
        self, last_run_at: datetime.datetime, ffwd: type = ffwd
    ) -> datetime.timedelta:
        last, delta, now = self.remaining_delta(last_run_at, ffwd=ffwd)
        return to_utc(last + delta) - to_utc(now)

    def remaining_delta(
        self,
        last_run_at: datetime.datetime,
        tz: datetime.tzinfo | None = None,
        ffwd: type = ffwd,
    ) -> tuple[datetime.datetime, datetime.timedelta, datetime.datetime]:
        """When it ran last, how long after that it is due (on the clock on the wall), and now.
        ``ffwd`` is accepted: the time is a ``timedelta`` here."""
        zone = tz or self.tz
        last = localize(self.maybe_make_aware(last_run_at), zone)
        now = localize(self.maybe_make_aware(self.now()), zone)
        return last, self._next_after(last) - last.replace(tzinfo=None), now

    def _next_after(self, last: datetime.datetime) -> datetime.datetime:
        """The next minute that is allowed, on the clock on the wall."""
        start = last.replace(second=0, microsecond=0, tzinfo=None) + datetime.timedelta(minutes=1)
        times = [(hour, minute) for hour in sorted(self.hour) for minute in sorted(self.minute)]
        day = start.date()
        for _ in range(MAX_YEARS * 366):
            if day.month not in self.month_of_year:
                day = (day.replace(day=1) + datetime.timedelta(days=32)).replace(day=1)
                continue
            if day.day in self.day_of_month and day.isoweekday() % 7 in self.day_of_week:
                earliest = (start.hour, start.minute) if day == start.date() else (0, 0)
                found = next((each for each in times if each >= earliest), None)
                if found is not None:
                    return datetime.datetime.combine(day, datetime.time(*found))
            day += datetime.timedelta(days=1)
        raise RuntimeError(f"{self!r} is never due")

    def is_due(self, last_run_at: datetime.datetime) -> Any:
        left = self.remaining_estimate(last_run_at).total_seconds()
        if left > 0:
            return schedstate(False, left)
        later = max(self.remaining_estimate(self.now()).total_seconds(), 0)
        return schedstate(self._in_time(last_run_at), later)

    def _in_time(self, last_run_at: datetime.datetime) -> bool:
        """Whether the latest run that was missed is within ``beat_cron_starting_deadline``."""
        deadline = self.app.conf.beat_cron_starting_deadline
        if deadline is None:
            return True
        last, _, now = self.remaining_delta(last_run_at)
        oldest = add_seconds_to_datetime(now, -deadline)
        # The first minute after another one: what is exactly on the deadline is in time.
        before = add_seconds_to_datetime(oldest, -1e-6)
        since = max(to_utc(last), to_utc(before)).astimezone(now.tzinfo)
        due = self._next_after(since).replace(tzinfo=now.tzinfo)
        return to_utc(oldest) <= to_utc(due) <= to_utc(now)

    # -- as a value --------------------------------------------------------------------------

    def _original(self) -> tuple[Any, ...]:
        return (
            self._orig_minute,
            self._orig_hour,
            self._orig_day_of_week,
            self._orig_day_of_month,
            self._orig_month_of_year,
        )

    def __repr__(self) -> str:
        minute, hour, day_of_week, day_of_month, month = map(_written, self._original())
        return f"<crontab: {minute} {hour} {day_of_month} {month} {day_of_week} (m/h/dM/MY/d)>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, crontab):
            return False
        names = ("minute", "hour", "day_of_week", "day_of_month", "month_of_year")
        return super().__eq__(other) and all(
            getattr(self, name) == getattr(other, name) for name in names
        )

    __hash__ = None  # schedules can be changed

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), self._original(), {"nowfun": self.nowfun} if self.nowfun else {}


SOLAR_EVENTS: dict[str, tuple[str, str, bool]] = {
    "dawn_astronomical": ("next_rising", "-18", True),
    "dawn_nautical": ("next_rising", "-12", True),
    "dawn_civil": ("next_rising", "-6", True),
    "sunrise": ("next_rising", "-0:34", False),
    "solar_noon": ("next_transit", "0", False),
    "sunset": ("next_setting", "-0:34", False),
    "dusk_civil": ("next_setting", "-6", True),
    "dusk_nautical": ("next_setting", "-12", True),
    "dusk_astronomical": ("next_setting", "-18", True),
}
"""For each event what ephem is asked, the height of the sun, and whether its centre counts."""


class solar(BaseSchedule):  # noqa: N801  # Celery's name
    """Due at an event of the sun, at a place: ``solar("sunset", -37.81, 144.96)``.

    Latitude and longitude are degrees, north and east positive. Needs the package ephem. Where the
    sun does not rise for weeks, it is due when it does.
    """

    _all_events = frozenset(SOLAR_EVENTS)
    _methods: ClassVar[dict[str, str]] = {name: how[0] for name, how in SOLAR_EVENTS.items()}
    _horizons: ClassVar[dict[str, str]] = {name: how[1] for name, how in SOLAR_EVENTS.items()}
    _use_center_l: ClassVar[dict[str, bool]] = {name: how[2] for name, how in SOLAR_EVENTS.items()}

    max_search_days = 366

    def __init__(self, event: str, lat: float, lon: float, **kwargs: Any) -> None:
        try:
            self.ephem = __import__("ephem")
        except ImportError:
            raise ImproperlyConfigured(
                "You need to install the ephem library to use solar schedules: "
                "pip install celery[solar]"
            ) from None
        self.event, self.lat, self.lon = event, lat, lon
        super().__init__(**kwargs)
        if event not in self._all_events:
            known = ", ".join(sorted(self._all_events))
            raise ValueError(f'Argument event "{event}" is invalid, must be one of {known}.')
        if not -90 <= lat <= 90:
            raise ValueError(f"Argument latitude {lat} is invalid, must be between -90 and 90.")
        if not -180 <= lon <= 180:
            raise ValueError(f"Argument longitude {lon} is invalid, must be between -180 and 180.")
        self.cal = self.ephem.Observer()
        self.cal.lat, self.cal.lon = str(lat), str(lon)
        self.cal.elev, self.cal.pressure = 0, 0
        self.cal.horizon = self._horizons[event]
        self.method = self._methods[event]
        self.use_center = self._use_center_l[event]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.event, self.lat, self.lon)

    def __repr__(self) -> str:
        return f"<solar: {self.event} at latitude {self.lat}, longitude: {self.lon}>"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, solar):
            return (other.event, other.lat, other.lon) == (self.event, self.lat, self.lon)
        return NotImplemented

    __hash__ = None

    def remaining_estimate(self, last_run_at: datetime.datetime) -> datetime.timedelta:
        """How long until the first event after the last run; negative once it is over."""
        last = to_utc(self.maybe_make_aware(last_run_at))
        when = self._next_event(last).replace(tzinfo=datetime.timezone.utc)
        return when - to_utc(self.maybe_make_aware(self.now()))

    def _next_event(self, start: datetime.datetime) -> datetime.datetime:
        """The first event after ``start``, in UTC. Days on which there is none are passed over;
        where none is found, the day on which to look again."""
        options = {"use_center": True} if self.use_center else {}
        ask = getattr(self.cal, self.method)
        for days in range(self.max_search_days):
            try:
                found = ask(
                    self.ephem.Sun(), start=start + datetime.timedelta(days=days), **options
                )
            except self.ephem.CircumpolarError:
                continue
            event: datetime.datetime = found.datetime()
            return event
        return start.replace(tzinfo=None) + datetime.timedelta(days=self.max_search_days)

    def is_due(self, last_run_at: datetime.datetime) -> Any:
        left = self.remaining_estimate(last_run_at).total_seconds()
        if left > 0:
            return schedstate(False, left)
        again = self.remaining_estimate(self.now()).total_seconds()
        return schedstate(True, max(again, 0))


def maybe_schedule(
    s: Any, relative: bool = False, app: Celery | None = None
) -> float | datetime.timedelta | BaseSchedule:
    """A schedule from seconds or a ``timedelta``; a schedule as it is, bound to ``app``."""
    if isinstance(s, (int, float)):
        s = datetime.timedelta(seconds=s)
    if isinstance(s, datetime.timedelta):
        return schedule(s, relative, app=app)
    if app is not None:
        s.app = app
    found: BaseSchedule = s
    return found


def _kept(cronspec: Any) -> Any:
    """A field as it was given; an iterator can be read only once."""
    return list(cronspec) if isinstance(cronspec, Iterator) else cronspec


def _written(cronspec: Any) -> str:
    if isinstance(cronspec, (int, str)):
        return str(cronspec)
    return ",".join(str(value) for value in cronspec)
