"""The periodic scheduler: what it sends and when, and the ways into it that libraries use."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from celery import Celery, _state, beat
from celery.beat import BeatLazyFunc, PersistentScheduler, ScheduleEntry, Scheduler
from celery.schedules import crontab, schedule
from taskmq_celery.engine import engine_for

pytestmark = pytest.mark.unit

START = datetime(2026, 5, 1, 12, tzinfo=timezone.utc)


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def go(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def app() -> Iterator[Celery]:
    made = Celery("t", broker="memory://", backend="rpc://", set_as_current=False)

    @made.task(name="t.add")
    def add(x: int, y: int = 1) -> int:
        return x + y

    yield made
    made.close()


class Recorder(Scheduler):
    """Notes what is sent."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.sent: list[str] = []
        super().__init__(*args, **kwargs)

    def apply_async(self, entry: Any, producer: Any = None, advance: bool = True, **kw: Any) -> Any:
        self.sent.append(entry.name)
        return None


def every(seconds: float, app: Celery, clock: Clock) -> schedule:
    return schedule(timedelta(seconds=seconds), nowfun=clock, app=app)


def test_what_is_due_is_sent_in_order_and_the_wait_is_until_the_next(
    app: Celery, clock: Clock
) -> None:
    app.conf.beat_schedule = {
        "slow": {"task": "t.add", "schedule": every(30, app, clock), "args": (1,)},
        "fast": {"task": "t.add", "schedule": every(10, app, clock), "args": (1,)},
    }
    scheduler = Recorder(app, max_interval=60)
    assert scheduler.tick() == pytest.approx(10, abs=0.02)
    clock.go(10)
    assert scheduler.tick() == 0
    assert scheduler.tick() == pytest.approx(10, abs=0.02)
    clock.go(25)
    while scheduler.tick() == 0:
        pass
    assert scheduler.sent == ["fast", "fast", "slow"]
    assert scheduler.schedule["fast"].total_run_count == 2
    assert scheduler.schedule["fast"].last_run_at == clock.now


def test_an_empty_schedule_waits_for_the_longest_time(app: Celery) -> None:
    assert Scheduler(app, max_interval=7).tick() == 7


def test_a_task_is_sent_with_what_is_computed_then_and_its_options(app: Celery) -> None:
    seen: list[Any] = []
    app.conf.beat_schedule = {
        "a": {
            "task": "t.add",
            "schedule": 1.0,
            "args": (BeatLazyFunc(lambda x: x + 1, 4),),
            "kwargs": {"y": 2},
            "options": {"priority": 3, "headers": {"own": "x"}},
        }
    }
    task = app.tasks["t.add"]
    task.apply_async = lambda *args, **kw: seen.append((args, kw))
    scheduler = Scheduler(app)
    scheduler.apply_entry(scheduler.schedule["a"], producer="p")
    options = {"priority": 3, "headers": {"own": "x"}, "producer": "p"}
    assert seen == [(([5], {"y": 2}), options)]


def test_a_task_of_another_program_is_stored_by_its_name(app: Celery) -> None:
    scheduler = Scheduler(app)
    entry = scheduler.add(name="x", task="elsewhere.task", schedule=1.0)
    result = scheduler.apply_async(entry)
    (record,) = engine_for(app).transport.get([result.id])
    assert record is not None
    assert scheduler.schedule["x"].total_run_count == 1


def test_apply_entry_is_called_as_a_method_that_can_be_replaced(
    app: Celery, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def replaced(*args: Any, **kwargs: Any) -> None:
        seen.append((args, list(kwargs)))

    monkeypatch.setattr(Scheduler, "apply_entry", replaced)
    app.conf.beat_schedule = {"a": {"task": "t.add", "schedule": every(5, app, clock)}}
    scheduler = Scheduler(app)
    entry = scheduler.schedule["a"]
    clock.go(5)
    assert scheduler.tick() == 0
    assert seen == [((scheduler, entry), ["producer"])]


def test_a_task_that_cannot_be_sent_is_logged_and_the_others_go_on(
    app: Celery, caplog: pytest.LogCaptureFixture
) -> None:
    scheduler = Scheduler(app)
    entry = scheduler.add(name="bad", task="t.add", schedule=1.0, args=(object(),))
    with pytest.raises(beat.SchedulingError, match="Couldn't apply scheduled task bad"):
        scheduler.apply_async(entry, advance=False)
    with caplog.at_level(logging.ERROR):
        scheduler.apply_entry(entry)
    assert "Message Error: Couldn't apply scheduled task bad" in caplog.text


def test_a_changed_schedule_is_noticed(app: Celery, clock: Clock) -> None:
    scheduler = Recorder(app, max_interval=60)
    assert scheduler.tick() == 60
    scheduler.add(name="new", task="t.add", schedule=every(5, app, clock))
    assert scheduler.tick() == pytest.approx(5, abs=0.02)
    scheduler.merge_inplace({})
    assert scheduler.tick() == 60


@pytest.fixture
def current(app: Celery) -> Iterator[None]:
    """What is unpickled belongs to the current app."""
    before = _state._tls.current_app
    app.set_current()
    yield
    _state._set_current_app(before)


@pytest.mark.usefixtures("current")
def test_an_entry_is_what_others_pickle_and_compare(app: Celery) -> None:
    entry = ScheduleEntry("n", "t", START, 3, schedule(5), (1,), {"y": 2}, {"queue": "q"})
    assert entry.__reduce__()[1][:4] == ("n", "t", START, 3)
    copied = pickle.loads(pickle.dumps(entry))  # noqa: S301  # our own
    assert (copied.name, copied.total_run_count, copied.options) == ("n", 3, {"queue": "q"})
    assert copied == entry
    assert next(entry).total_run_count == 4
    other = ScheduleEntry("n", "t", START, 0, schedule(6), app=app)
    assert other != entry
    entry.update(other)
    assert (entry.schedule, entry.total_run_count) == (schedule(6), 3)
    assert repr(ScheduleEntry("n", "t", START, args=(1,), schedule=5)).startswith(
        "<ScheduleEntry: n t(1) "
    )


@pytest.mark.usefixtures("current")
def test_a_persistent_schedule_remembers_when_tasks_ran(app: Celery, tmp_path: Path) -> None:
    app.conf.beat_schedule = {
        "a": {"task": "t.add", "schedule": crontab(minute="0")},
        "b": {"task": "t.add", "schedule": 5.0},
    }
    name = str(tmp_path / "schedule")
    first = PersistentScheduler(app, schedule_filename=name)
    first.reserve(first.schedule["a"])
    ran = first.schedule["a"].last_run_at
    first.close()
    del app.conf.beat_schedule["b"]
    second = PersistentScheduler(app, schedule_filename=name)
    assert set(second.schedule) - {"celery.backend_cleanup"} == {"a"}
    assert (second.schedule["a"].total_run_count, second.schedule["a"].last_run_at) == (1, ran)
    assert second.info == f"    . db -> {name}"
    second.close()


def test_a_schedule_file_that_cannot_be_read_is_made_anew(
    app: Celery, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "schedule"
    for suffix in PersistentScheduler.known_suffixes:
        Path(f"{path}{suffix}").write_bytes(b"not a database")
    app.conf.beat_schedule = {"a": {"task": "t.add", "schedule": 5.0}}
    scheduler = PersistentScheduler(app, schedule_filename=str(path))
    assert "a" in scheduler.schedule
    assert "Removing corrupted schedule file" in caplog.text
    scheduler.close()


def test_a_service_ticks_until_it_is_stopped(app: Celery) -> None:
    class Once(Recorder):
        def tick(self, *args: Any, **kwargs: Any) -> float:
            self.sent.append("tick")
            service.stop()
            return 5

    service = beat.Service(app, scheduler_cls=Once)
    service.start()
    assert service.scheduler.sent == ["tick"]
    service.stop(wait=True)
