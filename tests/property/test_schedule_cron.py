"""Cron expressions in zones whose clocks change: compared with cronsim, run by run."""

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from taskmq.schedule import Cron

UTC = timezone.utc
# Not Lord Howe, which shifts by 30 minutes: cronsim leaves out half an hour on the day after.
ZONES = [
    "UTC",
    "America/New_York",
    "Europe/Paris",
    "Africa/Casablanca",  # around Ramadan, twice within weeks
    "America/Havana",  # at midnight
    "Asia/Shanghai",  # no more
    "Pacific/Apia",  # left out a day
]
SIMPLE = {"UTC", "America/New_York", "Europe/Paris"}
RUNS = 25


def field(first: int, last: int) -> st.SearchStrategy[str]:
    number = st.integers(first, last)
    step = st.integers(1, max(1, last - first))
    span = st.tuples(number, number).filter(lambda p: p[0] < p[1])  # cronsim takes a-a for a
    return st.one_of(
        st.just("*"),
        step.map("*/{}".format),
        number.map(str),
        span.map(lambda p: f"{p[0]}-{p[1]}"),
        st.tuples(span, step).map(lambda p: f"{p[0][0]}-{p[0][1]}/{p[1]}"),
        st.lists(number, min_size=2, max_size=4).map(lambda n: ",".join(map(str, n))),
    )


expressions = st.tuples(
    field(0, 59),
    field(0, 23),
    st.one_of(field(1, 28), st.just("L")),
    field(1, 12),
    st.one_of(
        field(0, 6),
        st.tuples(st.integers(0, 6), st.integers(1, 4)).map(lambda p: f"{p[0]}#{p[1]}"),
    ),
).filter(lambda f: "#" not in f[4] or "/" not in f[2])  # some of those never come
instants = st.one_of(
    st.datetimes(datetime(1880, 1, 1), datetime(2080, 1, 1), timezones=st.just(UTC)),
    # Near the changes of the clock.
    st.builds(
        lambda year, month, minutes: (
            datetime(year, month, 1, tzinfo=UTC) + timedelta(minutes=minutes)
        ),
        st.integers(1980, 2079),
        st.sampled_from([3, 4, 9, 10, 11]),
        st.integers(0, 31 * 24 * 60),
    ),
)


@given(expressions, st.sampled_from(ZONES), instants)
@settings(max_examples=400)
def test_runs_come_when_cronsim_says(
    expression: tuple[str, ...], zone: str, start: datetime
) -> None:
    # Where clocks change at midnight, cronsim lets a star run at hours that do not exist.
    assume(zone in SIMPLE or not any(field.startswith("*") for field in expression[:2]))
    text = " ".join(expression)
    cron = Cron(text, zone)
    reference = CronSim(text, start.astimezone(ZoneInfo(zone)))
    now = start
    for _ in range(RUNS):
        expected = next(reference, None)
        found = cron.next_after(now)
        if expected is None:
            break
        assert found is not None
        assert found.astimezone(UTC) == expected.astimezone(UTC), now.astimezone(ZoneInfo(zone))
        now = found
