"""Schedulers with a clock that the test sets."""

from __future__ import annotations

import copy
import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from celery import Celery, _state
from celery.beat import PersistentScheduler

UTC = datetime.timezone.utc
START = datetime.datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


@pytest.fixture(autouse=True)
def apart() -> Iterator[None]:
    """The current app of one test is not that of the next."""
    yield
    _state._set_current_app(None)
    _state.set_default_app(None)


class Now:
    """The time, for every app that was made with it."""

    def __init__(self) -> None:
        self.at = START

    def __call__(self) -> datetime.datetime:
        return self.at

    def pass_(self, seconds: float) -> None:
        self.at += datetime.timedelta(seconds=seconds)


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def make_app(now: Now) -> Iterator[Callable[..., Any]]:
    """Makes apps that live at ``now``; keywords are settings."""
    made: list[Celery] = []

    def make(broker: str = "memory://", **settings: Any) -> Any:
        app: Any = Celery("beaten", broker=broker, backend="rpc://", set_as_current=False)
        app.conf.update(settings)
        app.now = now
        made.append(app)
        return app

    yield make
    for app in made:
        app.close()


@pytest.fixture
def make_beat(make_app: Callable[..., Any], tmp_path: Path) -> Iterator[Callable[..., Any]]:
    """Makes schedulers of one entry, each with an app and a file of its own."""
    made: list[Any] = []

    def make(broker: str, schedule: Any, file: str = "") -> Any:
        entry = {"task": "a", "schedule": copy.copy(schedule)}
        app = make_app(broker, beat_schedule={"a": entry})
        name = str(tmp_path / (file or f"schedule{len(made)}"))
        made.append(PersistentScheduler(app=app, schedule_filename=name))
        return made[-1]

    yield make
    for each in made:
        each.close()
