"""Several beats of one app: every run is sent once, whoever sends it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kombu.exceptions import OperationalError

from celery.beat import PersistentScheduler
from celery.schedules import crontab

EVERY_MINUTE = crontab()


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/jobs.db"


def tick(scheduler: Any) -> None:
    """Send everything that is due."""
    while scheduler.tick() == 0:
        pass


def test_what_one_has_sent_the_other_does_not(
    make_beat: Callable[..., Any], store: str, now: Any
) -> None:
    one, other = make_beat(store, EVERY_MINUTE), make_beat(store, EVERY_MINUTE)
    tick(one)
    tick(other)
    for _ in range(3):
        now.pass_(60)
        tick(one)
        tick(other)
    assert one.app.control.purge() == 3
    assert other.schedule["a"].total_run_count == one.schedule["a"].total_run_count == 3


@pytest.mark.integration
def test_on_redis(make_beat: Callable[..., Any], redis_url: str, now: Any) -> None:
    one, other = make_beat(redis_url, EVERY_MINUTE), make_beat(redis_url, EVERY_MINUTE)
    now.pass_(60)
    tick(one)
    tick(other)
    assert one.app.control.purge() == 1


def test_two_who_look_at_the_same_moment(
    make_beat: Callable[..., Any], store: str, now: Any
) -> None:
    one, other = make_beat(store, EVERY_MINUTE), make_beat(store, EVERY_MINUTE)
    now.pass_(60)
    entries = [(each, each.schedule["a"]) for each in (one, other)]
    assert [each.is_due(entry)[0] for each, entry in entries] == [True, True]
    for each, entry in entries:
        each.apply_async(entry)
    assert one.app.control.purge() == 1


def test_one_that_dies_between_sending_and_noting(
    make_beat: Callable[..., Any], store: str, now: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = make_beat(store, EVERY_MINUTE), make_beat(store, EVERY_MINUTE)
    now.pass_(60)

    def die(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(one._journal, "note", die)
    with pytest.raises(KeyboardInterrupt):
        one.tick()
    tick(other)
    assert other.app.control.purge() == 1
    now.pass_(60)
    tick(other)
    assert other.app.control.purge() == 1


def test_a_new_host_runs_what_was_missed(
    make_beat: Callable[..., Any], store: str, now: Any
) -> None:
    daily = crontab("0", "6")
    one = make_beat(store, daily)
    now.pass_(86_400)
    tick(one)
    one.close()
    now.pass_(3 * 86_400)
    elsewhere = make_beat(store, daily)
    tick(elsewhere)
    assert elsewhere.app.control.purge() == 2


def test_the_file_survives_a_restart(make_beat: Callable[..., Any], now: Any) -> None:
    one = make_beat("memory://", EVERY_MINUTE, "kept")
    now.pass_(60)
    tick(one)
    assert one.app.control.purge() == 1
    one.close()
    again = make_beat("memory://", EVERY_MINUTE, "kept")
    assert again.schedule["a"].total_run_count == 1
    tick(again)
    assert again.app.control.purge() == 0


def test_a_file_that_is_broken_is_made_anew(
    make_beat: Callable[..., Any], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for suffix in PersistentScheduler.known_suffixes:
        (tmp_path / f"broken{suffix}").write_bytes(b"no schedule")
    with caplog.at_level(logging.ERROR, "celery.beat"):
        one = make_beat("memory://", EVERY_MINUTE, "broken")
    assert "Removing corrupted schedule file" in caplog.text
    assert list(one.schedule) == ["a"]


def test_what_is_due_waits_for_the_store(
    make_beat: Callable[..., Any],
    store: str,
    now: Any,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    one = make_beat(store, EVERY_MINUTE)
    now.pass_(60)

    def away(*args: Any) -> None:
        raise OperationalError("nobody is there")

    with monkeypatch.context() as outage, caplog.at_level(logging.WARNING, "celery.beat"):
        outage.setattr(one._journal, "read", away)
        assert 0 < one.tick() <= 1
    assert "a is due, and waits for the store: nobody is there" in caplog.text
    now.pass_(1)
    tick(one)
    assert one.app.control.purge() == 1


def test_apps_of_another_name_are_not_mixed_up(
    make_beat: Callable[..., Any], store: str, now: Any
) -> None:
    one, other = make_beat(store, EVERY_MINUTE), make_beat(store, EVERY_MINUTE)
    other.app.main = "another"
    now.pass_(60)
    tick(one)
    tick(other)
    assert one.app.control.purge() == 2


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.tuples(st.integers(0, 2), st.sampled_from([0, 7, 31, 60, 200])), min_size=1, max_size=25
    )
)
def test_whoever_ticks_and_whenever(
    make_beat: Callable[..., Any],
    tmp_path_factory: pytest.TempPathFactory,
    now: Any,
    steps: list[tuple[int, int]],
) -> None:
    """Three beats tick in any order: a run for each minute in which somebody has looked."""
    store = f"sqlite:///{tmp_path_factory.mktemp('store')}/jobs.db"
    beats = [make_beat(store, EVERY_MINUTE) for _ in range(3)]
    last = now.at.timestamp() // 60
    expected = 0
    for who, seconds in steps:
        now.pass_(seconds)
        tick(beats[who])
        if now.at.timestamp() // 60 > last:
            last = now.at.timestamp() // 60
            expected += 1
    assert beats[0].app.control.purge() == expected
