"""Where clocks change, each run comes when the stated policy says: compared with a walk through
every minute of these days, for two hundred years of changes.

    SCHEDULE_DST=all pytest tests/property/test_schedule_dst.py    # every change, not a sample
"""

import os
from datetime import datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.property.schedule_oracle import (
    DAY,
    FIRST,
    LAST,
    UTC,
    ZONES,
    Change,
    Days,
    around,
    changes,
    expression,
    kinds_of,
)

from taskmq.schedule import Cron, every

ALL = os.environ.get("SCHEDULE_DST") == "all"
OTHERS = (
    "30 1-4 * * *",
    "*/7 1-3 * * *",
    "15 */3 * * 0",
    "59 23 * * *",
    "1 0 1 * 0",
    "0,30 0,2,23 * * 0-2",
    "45 2 1-7 * *",
)


def runs(text: str, zone: str, days: Days) -> list[datetime]:
    """The engine's, each found from the one before."""
    cron, found = Cron(text, zone), []
    instant = cron.next_after(days.begin - timedelta(microseconds=1))
    while instant is not None and instant < days.end:
        found.append(instant.astimezone(UTC))
        instant = cron.next_after(instant)
    return found


def inner(instants: list[datetime], days: Days) -> list[datetime]:
    """What the edges of the walk cannot have changed."""
    return [at for at in instants if days.begin + DAY / 4 <= at < days.end - DAY / 4]


def compare(change: Change, text: str) -> None:
    days = around(change)
    expected = inner(days.runs(expression(text)), days)
    assert inner(runs(text, change.zone, days), days) == expected, (change, text)


def test_there_are_changes_of_every_kind() -> None:
    found = {zone: changes(zone) for zone in ZONES}
    assert {zone: len(each) for zone, each in found.items() if len(each) < 50} == {}
    for each in found.values():
        assert {change.is_gap for change in each} == {True, False}
        assert each[0].at.year >= FIRST
        assert each[-1].at.year <= LAST
    assert changes("Asia/Shanghai", 1992) == ()
    assert {abs(each.after - each.before) for each in changes("Australia/Lord_Howe", 2000)} == {
        timedelta(minutes=30)
    }


@given(st.data())
@settings(max_examples=100)
def test_runs_come_as_the_policy_says(data: st.DataObject) -> None:
    change = data.draw(st.sampled_from(changes(data.draw(st.sampled_from(ZONES)))))
    kinds = [text for _, text in kinds_of(change)]
    compare(change, data.draw(st.sampled_from([*kinds, *OTHERS])))


def field(first: int, last: int) -> st.SearchStrategy[str]:
    number = st.integers(first, last)
    span = st.tuples(number, number).map(sorted).map(lambda p: f"{p[0]}-{p[1]}")
    step = st.integers(1, max(1, last - first))
    return st.one_of(
        st.just("*"),
        step.map("*/{}".format),
        number.map(str),
        span,
        st.tuples(span, step).map(lambda p: f"{p[0]}/{p[1]}"),
        st.lists(number, min_size=2, max_size=5, unique=True).map(lambda n: ",".join(map(str, n))),
    )


@given(
    st.sampled_from([change for zone in ZONES for change in changes(zone)]),
    st.tuples(field(0, 59), field(0, 6), st.just("*"), st.just("*"), field(0, 6)),
)
@settings(max_examples=100)
def test_any_expression(change: Change, fields: tuple[str, ...]) -> None:
    compare(change, " ".join(fields))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("zone", ZONES)
def test_every_change_or_some_of_all_times(zone: str) -> None:
    for change in changes(zone)[:: 1 if ALL else 40]:
        for text in [*(text for _, text in kinds_of(change)), *OTHERS]:
            compare(change, text)


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai"])
def test_a_zone_that_does_not_change(zone: str) -> None:
    begin = datetime(2026, 3, 27, tzinfo=UTC)
    days = Days(zone, begin, begin + 4 * DAY)
    for text in OTHERS:
        assert inner(runs(text, zone, days), days) == inner(days.runs(expression(text)), days)


@given(
    st.sampled_from([change for zone in ZONES for change in changes(zone, 1970)]),
    st.integers(0, 86_400 * 2),
)
@settings(max_examples=60)
def test_it_does_not_matter_from_where_one_asks(change: Change, seconds: int) -> None:
    """A scheduler that was away comes to the same instants."""
    days = around(change)
    start = change.at - DAY + timedelta(seconds=seconds)
    for _, text in kinds_of(change):
        later = [at for at in days.runs(expression(text)) if at > start]
        if later and later[0] < days.end - DAY / 4:
            found = Cron(text, change.zone).next_after(start)
            assert found is not None
            assert found.astimezone(UTC) == later[0], text
            assert found.tzinfo == ZoneInfo(change.zone)


@pytest.mark.parametrize("zone", ZONES)
def test_elapsed_time_knows_no_changes(zone: str) -> None:
    schedule = every("task", seconds=5400)
    change = changes(zone, 2020)[0]
    instant: datetime | None = change.at - DAY
    found = []
    while instant is not None and instant < change.at + DAY:
        instant = schedule.next_after(instant)
        assert instant is not None
        found.append(instant)
    assert {b - a for a, b in pairwise(found)} == {timedelta(seconds=5400)}
