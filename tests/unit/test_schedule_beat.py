"""A scheduler as a program, and beside a worker: signals, threads, what goes wrong in them."""

import os
import signal
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from tests.waiting import PATIENCE, wait_for

from taskmq import App, Config
from taskmq.cli import beat
from taskmq.errors import StoreCorrupt, TransportUnavailable
from taskmq.records import JobFilter
from taskmq.schedule import every
from taskmq.scheduler import Scheduler, runner
from taskmq.worker import Worker, WorkerHook


@pytest.fixture
def app() -> Iterator[App]:
    made = App(Config(transport="memory://"))

    @made.task(name="note", queue="q")
    def note() -> None: ...

    made.schedule(every("note", seconds=0.05))
    with made:
        yield made


def runs(app: App) -> int:
    return len(app.transport.find(JobFilter(limit=10_000)))


def has_runs(app: App, wanted: int) -> bool:
    return runs(app) >= wanted


def test_a_signal_stops_it_and_a_second_one_ends_the_process(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    before = signal.getsignal(signal.SIGTERM)
    scheduler = Scheduler(app)
    with beat._signals(scheduler):
        signal.raise_signal(signal.SIGTERM)
        scheduler.run()  # ends at once
        assert ended == []
        signal.raise_signal(signal.SIGINT)
        assert ended == [130]
    assert signal.getsignal(signal.SIGTERM) is before


def test_it_runs_as_long_as_the_worker_does(app: App) -> None:
    class Announcer(WorkerHook):
        ready = threading.Event()

        def on_ready(self, worker: Worker) -> None:
            self.ready.set()

    beside, hook = beat.SchedulerBeside(app, "program"), Announcer()
    app.add_hook(beside)
    worker = Worker(app, queues=["elsewhere"], hook=hook)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        assert hook.ready.wait(PATIENCE)
        wait_for(lambda: runs(app) > 2)
    finally:
        worker.stop()
        thread.join(PATIENCE)
    assert app.transport.acquire("scheduler", "somebody else", 1.0)
    stopped_with = runs(app)
    assert not any(each.name == "taskmq-scheduler" for each in threading.enumerate())
    assert runs(app) == stopped_with


def test_a_thread_outlives_an_error_that_nobody_expects(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(runner, "AFTER_FAILURE", 0.01)
    scheduler = Scheduler(app)
    failures = iter([True])
    take = scheduler._tick.take

    def fail_once(*arguments: Any) -> Any:
        if next(failures, False):
            raise RuntimeError("a bug")
        return take(*arguments)

    monkeypatch.setattr(scheduler._tick, "take", fail_once)
    scheduler.start()
    wait_for(lambda: runs(app) > 1)
    scheduler.stop()
    assert scheduler.join(PATIENCE)
    assert "the scheduler failed, and starts again" in caplog.text


def test_a_damaged_store_ends_a_thread_with_one_line(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*arguments: Any) -> Any:
        raise StoreCorrupt("it is damaged")

    monkeypatch.setattr(app.transport, "acquire", refuse)
    scheduler = Scheduler(app)
    scheduler.start()
    assert scheduler.join(PATIENCE)
    assert "this scheduler ends: it is damaged" in caplog.text


def test_a_store_that_cannot_be_listened_to_is_looked_at(
    app: App, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    listen, failures = app.transport.listen, iter([True, True, True])

    def fail_at_first(*arguments: Any, **options: Any) -> Any:
        if next(failures, False):
            raise TransportUnavailable("not yet")
        return listen(*arguments, **options)

    monkeypatch.setattr(app.transport, "listen", fail_at_first)
    scheduler = Scheduler(app)
    scheduler.start()
    wait_for(lambda: runs(app) > 1)
    scheduler.stop()
    assert scheduler.join(PATIENCE)
    assert "cannot look at schedules" in caplog.text


def test_it_may_run_again(app: App) -> None:
    scheduler = Scheduler(app)
    for _ in range(2):
        wanted = runs(app) + 1
        scheduler.start()
        wait_for(partial(has_runs, app, wanted))
        scheduler.stop()
        assert scheduler.join(PATIENCE)
    scheduler.stop()
