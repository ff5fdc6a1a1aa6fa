"""Entries, and a scheduler's look at what is due."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from celery import beat
from celery.beat import BeatLazyFunc, ScheduleEntry, Scheduler, SchedulingError
from celery.schedules import crontab, schedule


class Sending(Scheduler):
    """Keeps what it would send."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.sent: list[str] = []
        super().__init__(*args, **kwargs)

    def send_task(self, name: str, *args: Any, **kwargs: Any) -> None:
        self.sent.append(name)


def run_for(scheduler: Any, now: Any, seconds: float) -> None:
    """Tick, and let the time pass that the scheduler asks for."""
    end = now.at.timestamp() + seconds
    while (left := end - now.at.timestamp()) > 0:
        wait = scheduler.tick()
        now.pass_(min(max(wait, 0.001), left))


def test_everything_runs_as_often_as_it_is_due(make_app: Callable[..., Any], now: Any) -> None:
    entries = {
        "often": {"task": "often", "schedule": 10.0},
        "seldom": {"task": "seldom", "schedule": 60.0},
        "by the hour": {"task": "hourly", "schedule": crontab(minute=30)},
    }
    scheduler = Sending(make_app(beat_schedule=entries))
    run_for(scheduler, now, 3600.5)
    counts = {name: scheduler.sent.count(name) for name in ("often", "seldom", "hourly")}
    assert counts["hourly"] == 1
    assert counts["seldom"] == pytest.approx(60, abs=1)
    assert counts["often"] == pytest.approx(360, abs=2)
    assert scheduler.schedule["by the hour"].total_run_count == 1


def test_what_was_missed_runs_once(make_app: Callable[..., Any], now: Any) -> None:
    app = make_app(beat_schedule={"daily": {"task": "daily", "schedule": crontab("0", "6")}})
    scheduler = Sending(app)
    now.pass_(3 * 86_400)
    assert scheduler.tick() == 0
    assert scheduler.tick() > 0
    assert scheduler.sent == ["daily"]


def test_a_broken_entry_does_not_stop_the_others(
    make_app: Callable[..., Any], now: Any, caplog: pytest.LogCaptureFixture
) -> None:
    class Broken(schedule):
        def is_due(self, last_run_at: Any) -> Any:
            raise RuntimeError("no idea")

    app = make_app(
        beat_schedule={
            "broken": {"task": "broken", "schedule": Broken(1.0)},
            "good": {"task": "good", "schedule": 1.0},
        }
    )
    scheduler = Sending(app)
    with caplog.at_level(logging.ERROR, "celery.beat"):
        run_for(scheduler, now, 5.5)
    assert scheduler.sent == ["good"] * 5
    assert "entry broken cannot say when it is due" in caplog.text


def test_a_change_of_the_schedule_is_seen(make_app: Callable[..., Any], now: Any) -> None:
    scheduler = Sending(make_app(beat_schedule={"a": {"task": "a", "schedule": 3600.0}}))
    scheduler.tick()
    scheduler.add(name="b", task="b", schedule=1.0)
    run_for(scheduler, now, 3.5)
    assert scheduler.sent == ["b"] * 3


def test_a_task_is_called_with_what_is_worked_out_now(make_app: Callable[..., Any]) -> None:
    app = make_app()
    called: list[Any] = []

    @app.task(name="report")
    def report(day: int, *, hour: int) -> None: ...

    def apply_async(args: Any, kwargs: Any, **options: Any) -> None:
        called.append((args, kwargs, options["queue"]))

    report.apply_async = apply_async
    numbers = iter(range(10))
    entry = {
        "args": (BeatLazyFunc(next, numbers),),
        "kwargs": {"hour": BeatLazyFunc(next, numbers)},
        "options": {"queue": "slow"},
    }
    scheduler = Scheduler(app, lazy=True)
    added = scheduler.add(name="r", task="report", schedule=1.0, **entry)
    scheduler.apply_async(added)
    scheduler.apply_async(scheduler.schedule["r"])
    assert called == [([0], {"hour": 1}, "slow"), ([2], {"hour": 3}, "slow")]
    assert scheduler.schedule["r"].total_run_count == 2


def test_what_cannot_be_sent_is_an_error_with_its_name(make_app: Callable[..., Any]) -> None:
    scheduler = Scheduler(make_app(), lazy=True)
    entry = scheduler.add(name="bad", task="t", schedule=1.0, options={"serializer": "nosuch"})
    with pytest.raises(SchedulingError, match=r"Couldn't apply scheduled task bad: .*nosuch"):
        scheduler.apply_async(entry)


def test_periodic_tasks_are_put_on_the_schedule_by_code(make_app: Callable[..., Any]) -> None:
    app = make_app()

    @app.task(name="add")
    def add(x: int, y: int) -> int:
        return x + y

    @app.on_after_configure.connect
    def on_configured(sender: Any, **_: Any) -> None:
        sender.add_periodic_task(30.0, add.s(1, 2), name="sum", expires=10)

    scheduler = Scheduler(app)
    entry = scheduler.schedule["sum"]
    assert (entry.task, entry.args, entry.options) == ("add", (1, 2), {"expires": 10})


def test_entries_are_values(make_app: Callable[..., Any], now: Any) -> None:
    entry = ScheduleEntry("n", "t", schedule=10.0, args=(1,), kwargs={"a": 2}, app=make_app())
    assert repr(entry) == "<ScheduleEntry: n t(1, a=2) <freq: 10.00 seconds>>"
    after = next(entry)
    assert (after.total_run_count, entry.total_run_count) == (1, 0)
    assert after == entry
    after.update(ScheduleEntry("n", "t2", schedule=20.0, app=entry.app))
    assert after != entry
    assert (after.task, after.args, after.total_run_count) == ("t2", (), 1)
    assert b"celery.beat\n" in pickle.dumps(entry, protocol=0)  # where Celery has it


def test_old_results_are_cleaned_up_where_they_do_not_expire(make_app: Callable[..., Any]) -> None:
    app = make_app()
    assert "celery.backend_cleanup" not in Scheduler(app).schedule
    app.backend = type("Keeping", (), {"supports_autoexpire": False})()
    scheduler = Scheduler(app, lazy=True)
    scheduler.install_default_entries(scheduler.schedule)
    assert scheduler.schedule["celery.backend_cleanup"].options == {"expires": 43_200}


# -- the loop ------------------------------------------------------------------------------------


def test_a_service_ticks_until_it_is_stopped(make_app: Callable[..., Any]) -> None:
    class Once(Sending):
        closed = False

        def tick(self, *args: Any, **kwargs: Any) -> Any:
            service.stop()
            return 3600.0  # nobody waits for that

        def close(self) -> None:
            self.closed = True

    service = beat.Service(make_app(), scheduler_cls=Once)
    service.start()
    assert service.scheduler.closed
    assert service._is_stopped.is_set()


def test_an_embedded_service_is_a_thread_that_stops(make_app: Callable[..., Any]) -> None:
    embedded = beat.EmbeddedService(make_app(), thread=True, scheduler_cls=Sending)
    embedded.start()
    embedded.stop()
    embedded.join(20)
    assert not embedded.is_alive()
