"""``--autoscale``: the program's own `Autoscaler`, and bounds that change while the worker runs."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest
from kombu.exceptions import OperationalError

from celery import Celery
from celery.concurrency.base import BasePool
from celery.worker import WorkController, autoscale, state


class Pool(BasePool):
    """Slots that come and go at once; ``waits`` tasks are in the queues."""

    waits = 0
    fixed = False

    def grow(self, n: int = 1) -> None:
        if self.fixed:
            raise ValueError("it cannot grow")
        assert self.limit is not None
        self.limit += n

    def shrink(self, n: int = 1) -> None:
        if self.fixed:
            raise ValueError("it cannot shrink")
        self.grow(-n)

    def backlog(self) -> int:
        return self.waits


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sets the time."""

    def at(seconds: float) -> None:
        monkeypatch.setattr(autoscale, "monotonic", lambda: seconds)

    at(0.0)
    return at


@pytest.fixture
def pool() -> Pool:
    return Pool(2)


@pytest.mark.unit
def test_slots_follow_the_load_within_the_bounds(pool: Pool, now: Any) -> None:
    scaler = autoscale.Autoscaler(pool, 10, 2, keepalive=30)
    now(100)
    pool.waits = 7
    scaler.maybe_scale()
    assert pool.limit == 7
    pool.waits = 50
    scaler.maybe_scale()
    assert pool.limit == 10
    pool.waits = 0
    now(130)
    scaler.maybe_scale()
    assert pool.limit == 10  # not for 30 seconds yet
    now(131)
    scaler.maybe_scale()
    assert pool.limit == 2
    assert scaler.info() == {"max": 10, "min": 2, "current": 2, "qty": 0}


@pytest.mark.unit
def test_what_the_worker_holds_counts_too(
    pool: Pool, now: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaler = autoscale.Autoscaler(pool, 10, 2)
    monkeypatch.setattr(state, "reserved_requests", {object(), object(), object()})
    pool.waits = 2
    assert scaler.qty == 5


@pytest.mark.unit
def test_a_task_that_finds_every_slot_wanted_keeps_them(pool: Pool, now: Any) -> None:
    scaler = autoscale.Autoscaler(pool, 4, 2, keepalive=30)
    now(100)
    scaler.scale_up(2)
    pool.waits = 4
    now(120)
    scaler.on_task_received(object())
    pool.waits = 0
    now(140)
    scaler.maybe_scale()
    assert pool.limit == 4
    now(151)
    scaler.maybe_scale()
    assert pool.limit == 2


@pytest.mark.unit
def test_other_bounds_hold_at_once(pool: Pool, now: Any) -> None:
    scaler = autoscale.Autoscaler(pool, 10, 2)
    scaler.scale_up(6)
    assert scaler.update(max=5) == (5, 2)
    assert pool.limit == 5
    pool.shrink(3)
    assert scaler.update(min=4) == (5, 4)
    assert pool.limit == 4
    pool.fixed = True
    assert scaler.update(max=1) == (1, 4)
    scaler.scale_up(1)
    assert pool.limit == 4  # the pool said no: the worker goes on


@pytest.mark.unit
def test_a_store_that_is_away_ends_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Celery("t", broker="memory://", set_as_current=False)
    worker = WorkController(app=app, pool="prefork", autoscale=(4, 1))
    asked: list[int] = []

    def away() -> int:
        asked.append(1)
        raise OperationalError("gone")

    monkeypatch.setattr(WorkController, "inspection", SimpleNamespace(waiting=away))
    worker._engine = object()  # type: ignore[assignment]  # as if it ran
    scaler = autoscale.Autoscaler(worker.pool, 4, 1)
    scaler.maybe_scale()
    assert (asked, worker.pool.num_processes) == ([1], 1)


@pytest.mark.unit
def test_the_store_is_not_asked_for_every_task(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Celery("t", broker="memory://", set_as_current=False)
    worker = WorkController(app=app, pool="prefork", autoscale=(4, 1))
    asked: list[int] = []
    now = 100.0

    def waiting() -> int:
        asked.append(1)
        return 3

    monkeypatch.setattr(WorkController, "inspection", SimpleNamespace(waiting=waiting))
    monkeypatch.setattr("celery.worker.worker.time", SimpleNamespace(monotonic=lambda: now))
    worker._engine = object()  # type: ignore[assignment]  # as if it ran
    scaler = autoscale.Autoscaler(worker.pool, 4, 1)
    for _ in range(100):
        scaler.on_task_received(object())
    assert (asked, scaler.qty) == ([1], 3)
    now += 1
    assert (scaler.qty, asked) == (3, [1, 1])


SLOW = """
import json
import pathlib
import time
from celery.worker.autoscale import Autoscaler

HERE = pathlib.Path(__file__).parent

class ByOne(Autoscaler):
    def scale_up(self, n):
        print(f"wants {n} more")
        return super().scale_up(1)

app.conf.worker_autoscaler = "proj:ByOne"

@app.task
def wait():
    while not (HERE / "go").exists():
        time.sleep(0.05)
"""


def test_a_worker_runs_the_autoscaler_of_the_program(program: Any) -> None:
    program.add_to_tasks(SLOW)
    worker = program.ready_worker("--autoscale=3,1")
    program.ask("from proj import wait; [wait.delay() for _ in range(6)]; print(1)")
    worker.wait_for(r"wants \d more")
    worker.wait_for("Scaling up 1 processes")
    worker.wait_for("wants 1 more")  # the last one that it may have
    (program.folder / "go").touch()
    assert worker.stop() == 0
    assert "concurrency: {min=1, max=3} (prefork)" in worker.output
    assert "while other threads run" not in worker.output


@pytest.mark.unit
def test_the_order_to_autoscale(pool: Pool, now: Any) -> None:
    from celery.worker.control import autoscale as order
    from celery.worker.control import pool_grow

    controller = SimpleNamespace(autoscaler=autoscale.Autoscaler(pool, 10, 2))
    asked: Any = SimpleNamespace(consumer=SimpleNamespace(controller=controller, pool=pool))
    assert order(asked, max=4, min=3) == {"ok": "autoscale now max=4 min=3"}
    assert pool.limit == 3
    assert "autoscale" in pool_grow(asked)["error"]
    controller.autoscaler = None
    assert "--autoscale" in order(asked, max=4)["error"]
    assert pool_grow(asked, 2) == {"ok": "pool will grow"}
    assert pool.limit == 5
    assert json.dumps(order(asked))
