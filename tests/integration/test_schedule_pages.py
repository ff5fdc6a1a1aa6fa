"""The pages about changes of the clock say what is so; Celery agrees where it should."""

import random
from datetime import datetime, timedelta, timezone

import pytest
from tests.conftest import under_ci
from tests.integration.schedule_pages import (
    PAGES,
    NoCelery,
    cases,
    celery_folder,
    celery_page,
    celery_runs,
    dst_page,
    engine_runs,
    runs_near,
    walked_near,
)

UTC = timezone.utc
QUIET = {
    "America/New_York": datetime(2026, 6, 28, tzinfo=UTC),
    "Africa/Casablanca": datetime(2026, 8, 30, tzinfo=UTC),
    "Australia/Lord_Howe": datetime(2027, 1, 30, tzinfo=UTC),
    "UTC": datetime(2028, 2, 27, tzinfo=UTC),
}


@pytest.fixture(scope="module")
def real_celery() -> None:
    try:
        celery_folder()
    except NoCelery as error:
        if under_ci():
            pytest.fail(f"a real Celery has to be installed under CI: {error}", pytrace=False)
        pytest.skip(f"a real Celery cannot be installed here: {error}")


def test_every_run_on_the_page_is_found_by_a_walk() -> None:
    wanted = cases()
    assert len(wanted) == 90
    for change, _, text in wanted:
        assert runs_near(change, text) == walked_near(change, text), (change, text)


def test_the_page_says_when_runs_come() -> None:
    written = (PAGES / "schedules-dst.md").read_text()
    assert written == dst_page(), "python -m tests.integration.schedule_pages writes it"


@pytest.mark.usefixtures("real_celery")
def test_the_page_says_where_celery_differs() -> None:
    written = (PAGES / "schedules-celery.md").read_text()
    command = "python -m tests.integration.schedule_pages --celery"
    assert written == celery_page(), f"{command} writes it"


@pytest.mark.usefixtures("real_celery")
def test_celery_agrees_where_clocks_do_not_change() -> None:
    draw = random.Random(20_260_301)
    asked = []
    for zone, begin in QUIET.items():
        for _ in range(6):
            text = " ".join([one(draw, 0, 59), one(draw, 0, 23), day(draw), "*", weekday(draw)])
            asked.append((zone, text, begin, begin + timedelta(days=2)))
    for (zone, text, begin, end), theirs in zip(asked, celery_runs(asked), strict=True):
        ours = engine_runs(zone, text, begin + timedelta(minutes=1), end)
        theirs = [at for at in theirs if at >= begin + timedelta(minutes=1)]
        assert ours == theirs, (zone, text)


def one(draw: random.Random, first: int, last: int) -> str:
    low, high = sorted(draw.sample(range(first, last + 1), 2))
    return draw.choice(
        ["*", f"*/{draw.randint(2, 20)}", f"{low}", f"{low},{high}", f"{low}-{high}"]
    )


def day(draw: random.Random) -> str:
    """Celery wants both days to fit, whatever they begin with: one of them is a star."""
    return draw.choice(["*", "*", "*/2"])


def weekday(draw: random.Random) -> str:
    return draw.choice(["*", "*", "0-3", "1,5,6", "sun"])
