"""Schedules by the sun."""

from __future__ import annotations

import pickle
from datetime import datetime, timedelta, timezone
from typing import Any
from unittest.mock import patch

import pytest

from celery import Celery
from celery.exceptions import ImproperlyConfigured
from celery.schedules import crontab, schedule, solar
from celery.utils.saferepr import saferepr
from celery.utils.time import add_seconds_to_datetime, subtract_datetimes, yearmonth
from celery.utils.time import timezone as zones

pytestmark = pytest.mark.unit

MELBOURNE = (-37.81, 144.96)
NOON = datetime(2026, 6, 1, 2, tzinfo=timezone.utc)


def at(when: datetime, event: str, *place: float, app: Celery) -> solar:
    return solar(event, *(place or MELBOURNE), nowfun=lambda: when, app=app)


def test_sunset(app: Celery) -> None:
    sunset = datetime(2026, 6, 1, 7, 8, tzinfo=timezone.utc)
    left = at(NOON, "sunset", app=app).remaining_estimate(NOON)
    assert abs(NOON + left - sunset) < timedelta(minutes=2)
    waiting = at(NOON, "sunset", app=app).is_due(NOON)
    assert not waiting.is_due
    assert waiting.next == pytest.approx(left.total_seconds())
    later = sunset + timedelta(hours=1)
    due = at(later, "sunset", app=app).is_due(NOON)
    assert due.is_due
    assert due.next == pytest.approx(23 * 3600, abs=600)


def test_days_without_the_event_are_passed_over(app: Celery) -> None:
    london = (51.5074, -0.1278)
    june = datetime(2026, 6, 15, tzinfo=timezone.utc)  # the nights are not dark
    when = june + at(june, "dawn_astronomical", *london, app=app).remaining_estimate(june)
    assert (when.month, when.day) == (7, 22)


@pytest.mark.parametrize(
    ("event", "place", "said"),
    [
        ("teatime", (0, 0), 'Argument event "teatime" is invalid'),
        ("sunset", (91, 0), "Argument latitude 91 is invalid"),
        ("sunset", (0, -181), "Argument longitude -181 is invalid"),
    ],
)
def test_wrong_arguments(event: str, place: tuple[float, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        solar(event, *place)


def test_it_is_a_value(app: Celery) -> None:
    sunset = solar("sunset", *MELBOURNE)
    assert pickle.loads(pickle.dumps(sunset)) == sunset  # noqa: S301  # our own
    assert sunset != solar("sunrise", *MELBOURNE)
    assert sunset != schedule(10)
    assert repr(sunset) == "<solar: sunset at latitude -37.81, longitude: 144.96>"
    never = at(NOON, "sunset", app=app)
    never.max_search_days = 0
    assert never.remaining_estimate(NOON) == timedelta(0)  # the day on which to look again


def test_without_ephem_it_says_so() -> None:
    modules: dict[str, Any] = {"ephem": None}
    with (
        patch.dict("sys.modules", modules),
        pytest.raises(ImproperlyConfigured, match=r"celery\[solar\]"),
    ):
        solar("sunset", *MELBOURNE)


def test_a_day_that_no_month_has() -> None:
    with pytest.raises(ValueError, match="day_of_month '30' never occurs in month_of_year 'feb'"):
        crontab(day_of_month="30", month_of_year="feb")
    assert crontab(day_of_month="29", month_of_year="2").day_of_month == {29}


def test_time_across_a_change_of_clocks(app: Celery) -> None:
    paris = zones.get_timezone("Europe/Paris")
    before = datetime(2020, 3, 29, 1, 59, 55, tzinfo=paris)
    after = datetime(2020, 3, 29, 3, 0, 5, tzinfo=paris)
    assert add_seconds_to_datetime(before, 10) == after
    assert subtract_datetimes(after, before) == timedelta(seconds=10)
    assert yearmonth("february") == 2
    app.timezone = paris
    assert app.now().tzinfo == paris
    del app.timezone
    assert app.now().utcoffset() == timedelta(0)


def test_text_of_bytes_and_sets() -> None:
    class Tags(set[int]): ...

    assert saferepr("ø".encode()) == "b'ø'"
    assert saferepr(b"\x2f\xbf" * 9, 8) == "b'2fbf2fbf...'"
    assert saferepr([frozenset(), set(), Tags({7})]) == "[frozenset(), set(), Tags({7})]"
