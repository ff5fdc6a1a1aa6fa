"""Schedules as data. What is expected was recorded from Celery 5.7."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from celery import Celery
from celery.schedules import (
    ParseException,
    crontab,
    crontab_parser,
    maybe_schedule,
    schedstate,
    schedule,
)

pytestmark = pytest.mark.unit

UTC = datetime.timezone.utc
NOW = datetime.datetime(2024, 5, 17, 16, 50, 30, tzinfo=UTC)

Make = Callable[..., Any]


def moment(month: int, day: int, hour: int = 0, minute: int = 0) -> datetime.datetime:
    return datetime.datetime(2024, month, day, hour, minute, tzinfo=UTC)


@pytest.fixture
def at(make_app: Callable[..., Any]) -> Make:
    """Makes crontabs of an app in a time zone, at a point of time."""

    def make(now: datetime.datetime = NOW, zone: str = "UTC", **fields: Any) -> crontab:
        return crontab(nowfun=lambda: now, app=make_app(timezone=zone), **fields)

    return make


@pytest.mark.parametrize(
    ("field", "spec", "values"),
    [
        ("minute", "*/15", {0, 15, 30, 45}),
        ("minute", "10-50/20", {10, 30, 50}),
        ("minute", [0, 30], {0, 30}),
        ("minute", iter([1, 2]), {1, 2}),
        ("minute", 7, {7}),
        ("hour", "*/6,5", {0, 5, 6, 12, 18}),
        ("hour", "22-2", {22, 23, 0, 1, 2}),
        ("day_of_week", "sun", {0}),
        ("day_of_week", "monday", {1}),
        ("day_of_week", "fri-mon", {5, 6, 0, 1}),
        ("month_of_year", "jan,mar-may", {1, 3, 4, 5}),
        ("day_of_month", "2-8/2", {2, 4, 6, 8}),
    ],
)
def test_fields_of_a_crontab(field: str, spec: Any, values: set[int]) -> None:
    assert getattr(crontab(**{field: spec}), field) == values


@pytest.mark.parametrize(
    ("fields", "error", "text"),
    [
        ({"minute": "60"}, ValueError, "Invalid end range: 60 > 59."),
        ({"day_of_week": "7"}, ValueError, "Invalid end range: 7 > 6."),
        ({"day_of_month": "0"}, ValueError, "Invalid beginning range: 0 < 1."),
        ({"month_of_year": 13}, ValueError, "Valid range is 1-12"),
        ({"minute": "a"}, ValueError, "Invalid weekday literal 'a'."),
        ({"minute": "5/2"}, ValueError, "Invalid weekday literal '5/2'."),
        ({"minute": "*/0"}, ValueError, "slice step cannot be zero"),
        ({"minute": ""}, ParseException, "empty part"),
        ({"minute": "1,,2"}, ParseException, "empty part"),
        ({"minute": 3.5}, TypeError, "not 3.5"),
        ({"minute": None}, TypeError, "not None"),
    ],
)
def test_a_wrong_field_says_what_is_wrong(
    fields: dict[str, Any], error: type[Exception], text: str
) -> None:
    with pytest.raises(error) as raised:
        crontab(**fields)
    assert text in str(raised.value)


def test_a_crontab_is_a_value() -> None:
    made = crontab(minute="*/15", hour="9-17", day_of_week="mon-fri")
    assert repr(made) == "<crontab: */15 9-17 * * mon-fri (m/h/dM/MY/d)>"
    assert (made._orig_minute, made._orig_day_of_week) == ("*/15", "mon-fri")
    assert made == crontab.from_string("*/15 9-17 * * mon-fri")
    assert made != crontab()
    copy = pickle.loads(pickle.dumps(made))  # noqa: S301  # our own bytes
    assert copy == made
    assert made.__reduce__()[1] == ("*/15", "9-17", "mon-fri", "*", "*")
    assert repr(crontab(minute=[1, 2])) == "<crontab: 1,2 * * * * (m/h/dM/MY/d)>"


@pytest.mark.parametrize(
    ("fields", "last", "left"),
    [
        ({"minute": "*/15", "hour": "9-17", "day_of_week": "mon-fri"}, (5, 17, 16, 45), "0:09:30"),
        ({"minute": 0, "hour": 7}, (5, 17, 7, 0), "14:09:30"),
        ({"minute": 0, "hour": 0, "day_of_month": 31}, (5, 1), "13 days, 7:09:30"),
        (
            {"minute": 30, "hour": 12, "day_of_month": "29", "month_of_year": "2"},
            (2, 29, 12, 30),
            "1382 days, 19:39:30",
        ),
        (
            {"minute": 0, "hour": 0, "day_of_week": "sun", "day_of_month": "1-7"},
            (5, 5),
            "15 days, 7:09:30",
        ),
        ({}, (5, 17, 16, 50), "0:00:30"),
        ({}, (5, 17, 16, 49), "-1 day, 23:59:30"),
        (
            {"minute": 59, "hour": 23, "month_of_year": 12, "day_of_month": 31},
            (1, 1),
            "228 days, 7:08:30",
        ),
    ],
)
def test_when_a_crontab_is_next_due(
    at: Make, fields: dict[str, Any], last: tuple[int, ...], left: str
) -> None:
    made = at(**fields)
    ran_at = moment(*last)
    assert str(made.remaining_estimate(ran_at)) == left
    due, again = made.is_due(ran_at)
    assert due is left.startswith("-")
    assert again == (30.0 if due else made.remaining_estimate(ran_at).total_seconds())


@pytest.mark.parametrize(
    ("now", "last", "left"),
    [
        # 02:30 is left out on 31 March 2024 in Berlin: it comes an hour later
        ((3, 31, 0, 30), (3, 30, 1, 30), "1:00:00"),
        # 02:30 comes twice on 27 October 2024: the first counts
        ((10, 26, 23, 0), (10, 26, 0, 30), "1:30:00"),
    ],
)
def test_a_crontab_is_meant_in_the_apps_time_zone(
    at: Make, now: tuple[int, ...], last: tuple[int, ...], left: str
) -> None:
    made = at(moment(*now), "Europe/Berlin", hour=2, minute=30)
    assert str(made.tz) == "Europe/Berlin"
    assert str(made.remaining_estimate(moment(*last))) == left


def test_a_crontab_that_is_far_too_late_can_be_let_go(at: Make) -> None:
    made = at(hour=7, minute=0)
    yesterday = NOW - datetime.timedelta(days=1)
    assert made.is_due(yesterday).is_due
    made.app.conf.beat_cron_starting_deadline = 3600
    assert not made.is_due(yesterday).is_due


def test_a_crontab_that_never_comes_says_so(at: Make) -> None:
    with pytest.raises(ValueError, match="never occurs in month_of_year"):
        at(day_of_month=31, month_of_year=2)
    made = at()
    made.month_of_year = set()  # as a schedule that was stored with nonsense
    with pytest.raises(RuntimeError, match="is never due"):
        made.is_due(NOW)


def test_intervals(app: Any) -> None:
    half = schedule(datetime.timedelta(seconds=30), nowfun=lambda: NOW, app=app)
    assert (repr(half), half.seconds) == ("<freq: 30.00 seconds>", 30)
    assert half.is_due(NOW - datetime.timedelta(seconds=10)) == schedstate(False, 20.0)
    assert half.is_due(NOW - datetime.timedelta(seconds=31)) == schedstate(True, 30.0)
    assert half == schedule(30) == datetime.timedelta(seconds=30)
    assert half != schedule(31)
    whole = schedule(60, relative=True, nowfun=lambda: NOW, app=app)
    assert str(whole.remaining_estimate(NOW - datetime.timedelta(seconds=10))) == "0:00:30"
    copy = pickle.loads(pickle.dumps(schedule(60, relative=True)))  # noqa: S301  # our own bytes
    assert (copy.run_every, copy.relative) == (datetime.timedelta(seconds=60), True)


def test_schedules_from_numbers(app: Any) -> None:
    assert repr(maybe_schedule(30)) == "<freq: 30.00 seconds>"
    assert repr(maybe_schedule(datetime.timedelta(hours=2))) == "<freq: 2.00 hours>"
    made = crontab()
    assert maybe_schedule(made, app=app) is made
    assert made.app is app


def test_the_parser_alone() -> None:
    assert crontab_parser(60).parse("30-32,15,*/25") == {0, 15, 25, 30, 31, 32, 50}
    assert crontab_parser(12, 1).parse("*/2") == {1, 3, 5, 7, 9, 11}


def test_periodic_tasks_are_put_on_the_schedule(app: Any) -> None:
    signature = app.signature("t", (1,), queue="q")
    name = app.add_periodic_task(30.0, signature, (0,), expires=10)
    assert app.conf.beat_schedule == {
        name: {
            "schedule": 30.0,
            "task": "t",
            "args": (0, 1),
            "kwargs": {},
            "options": {"queue": "q", "expires": 10},
        }
    }
    assert app.add_periodic_task(crontab(), signature, name="own") == "own"


@pytest.mark.parametrize(
    ("zone", "every", "last", "due", "then"),
    [
        # the clock of Goose Bay went from 00:01 back to 23:01
        ("America/Goose_Bay", {"hours": 1}, "2000-10-28 23:01", "2000-10-29T00:00:00-03:00", 3600),
        # that of Havana goes from 00:00 to 01:00: a day of 23 hours begins at 01:00
        ("America/Havana", {"days": 1}, "2026-03-07 23:30", "2026-03-08T01:00:00-04:00", 82800),
        # that of Lord Howe moves by half an hour
        (
            "Australia/Lord_Howe",
            {"hours": 1},
            "2026-10-04 01:15",
            "2026-10-04T02:30:00+11:00",
            1800,
        ),
        # there was no 30 December in Samoa
        ("Pacific/Apia", {"days": 1}, "2011-12-29 23:30", "2011-12-31T00:00:00+14:00", 86400),
        ("America/New_York", {"minutes": 2}, "2026-03-08 01:58", "2026-03-08T03:00:00-04:00", 120),
    ],
)
def test_relative_schedules_follow_the_clock(
    make_app: Callable[..., Any], zone: str, every: dict[str, int], last: str, due: str, then: int
) -> None:
    app = make_app(timezone=zone)
    ran = datetime.datetime.fromisoformat(last).replace(tzinfo=app.timezone)
    moment = datetime.datetime.fromisoformat(due)
    second = datetime.timedelta(seconds=1)
    now = moment - second
    often = schedule(datetime.timedelta(**every), relative=True, nowfun=lambda: now, app=app)
    assert often.is_due(ran) == (False, 1)
    now = moment + second
    assert often.is_due(ran) == (True, then - 1)


def test_the_latest_run_that_was_missed_counts(make_app: Callable[..., Any]) -> None:
    app = make_app(beat_cron_starting_deadline=1800)
    now = moment(5, 17, 10, 30)
    twice = crontab(minute="0,45", nowfun=lambda: now, app=app)
    assert twice.is_due(moment(5, 17, 8, 45)).is_due  # at 10:00, exactly half an hour ago
    now += datetime.timedelta(seconds=1)
    assert not twice.is_due(moment(5, 17, 8, 45)).is_due


def now_for_pickle() -> datetime.datetime:
    return NOW


def test_a_pickled_crontab_keeps_its_clock() -> None:
    kept = pickle.loads(pickle.dumps(crontab(minute=1, nowfun=now_for_pickle)))  # noqa: S301  # ours
    assert kept.nowfun is now_for_pickle
    assert kept == crontab(minute=1, nowfun=now_for_pickle)


@pytest.mark.parametrize("spec", ["*/", "-20", "1,,2"])
def test_what_is_no_field_at_all(spec: str) -> None:
    with pytest.raises(ParseException):
        crontab_parser(60).parse(spec)


def test_times_are_moved_to_another_zone_only_to_reckon_with_them(
    make_app: Callable[..., Any],
) -> None:
    every = schedule(10.0, app=make_app(timezone="Europe/Oslo"))
    elsewhere = NOW.astimezone(datetime.timezone(datetime.timedelta(hours=-5)))
    assert every.maybe_make_aware(elsewhere).utcoffset() == datetime.timedelta(hours=-5)
    assert every.maybe_make_aware(NOW.replace(tzinfo=None)) == NOW
    assert every.to_local(NOW.replace(tzinfo=None)).tzinfo is None
    every.utc_enabled = False
    assert every.to_local(NOW.replace(tzinfo=None)).tzinfo is not None


def test_two_entries_without_a_name_shadow_each_other(caplog: pytest.LogCaptureFixture) -> None:
    app = Celery("t", set_as_current=False)
    signature = app.signature("t.any")
    for seconds in (10, 20):
        app.add_periodic_task(seconds, signature)
    assert "shadowed a previous unnamed periodic task" in caplog.text
    assert app.conf.beat_schedule["t.any()"]["schedule"] == 20
