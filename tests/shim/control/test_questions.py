"""What a worker says of itself and of its tasks, in the shapes that Celery's workers answer in."""

from __future__ import annotations

import datetime
import os
import time
from types import SimpleNamespace
from typing import Any

import pytest
from tests.shim.control.working import NAME
from tests.waiting import PATIENCE, wait_for

from celery import signals
from celery.worker import state as worker_state
from celery.worker.consumer import Mingle

pytestmark = pytest.mark.integration

DELIVERY = {"exchange": "", "routing_key": "celery", "priority": 0, "redelivered": False}


def test_ping_reaches_whom_it_is_for(app: Any) -> None:
    pong = {NAME: {"ok": "pong"}}
    assert app.control.ping(limit=1, timeout=PATIENCE) == [pong]
    assert app.control.inspect([NAME], timeout=PATIENCE).ping() == pong
    named = {"limit": 1, "timeout": PATIENCE, "matcher": "glob"}
    assert app.control.inspect(pattern="w*@box", **named).ping() == pong
    assert app.control.inspect(["other@box"], timeout=0.3).ping() is None
    assert app.control.inspect(pattern="x*", matcher="glob", timeout=0.3).ping() is None


def test_a_task_that_runs(app: Any, ask: Any) -> None:
    sent = app.tasks["hold"].delay(1, two=[2])
    assert app.started.wait(PATIENCE)
    (found,) = ask.active()
    assert abs(found.pop("time_start") - time.time()) < PATIENCE
    expected = {
        "id": sent.id,
        "name": "hold",
        "args": [1],
        "kwargs": {"two": [2]},
        "type": "hold",
        "hostname": NAME,
        "acknowledged": True,
        "delivery_info": DELIVERY,
        "worker_pid": os.getpid(),
    }
    assert found == expected
    (safe,) = ask.active(safe=True)
    assert (safe["args"], safe["kwargs"]) == ("(1,)", "{'two': [2]}")
    state, told = ask.query_task(sent.id, "nobody")[sent.id]
    assert state == "active"
    assert told["id"] == sent.id
    assert ask.reserved() == []


def test_a_task_that_waits_for_its_time(app: Any, ask: Any) -> None:
    eta = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=1)
    sent = app.tasks["add"].apply_async((1, 2), eta=eta)
    (found,) = ask.scheduled()
    assert datetime.datetime.fromisoformat(found["eta"]) == eta
    assert found["priority"] == 6
    request = found["request"]
    assert (request["id"], request["args"]) == (sent.id, [1, 2])
    assert (request["time_start"], request["acknowledged"]) == (None, False)
    assert ask.query_task([sent.id]) == {sent.id: ["scheduled", request]}


def test_a_task_that_it_has_not_started(app: Any, ask: Any) -> None:
    seen: list[Any] = []

    def look(**_: Any) -> None:  # while this asks, the worker starts nothing
        seen.extend(ask.reserved())

    signals.task_received.connect(look)
    try:
        sent = app.tasks["add"].delay(1, 2)
        assert sent.get(timeout=PATIENCE) == 3
    finally:
        signals.task_received.disconnect(look)
    (found,) = seen
    assert (found["id"], found["args"]) == (sent.id, [1, 2])
    assert (found["time_start"], found["acknowledged"]) == (None, False)


def test_what_it_is(app: Any, ask: Any) -> None:
    stats = ask.stats()
    assert stats["pid"] == os.getpid()
    assert stats["pool"]["max-concurrency"] == 1
    assert stats["pool"]["processes"] == [os.getpid()]
    assert stats["broker"]["transport"] == "redis"
    assert "password" not in stats["broker"]
    assert int(stats["clock"]) < ask.clock()["clock"]
    assert stats["rusage"]["maxrss"] > 0
    assert stats["prefetch_count"] == 256
    before = stats["total"].get("add", 0)
    assert app.tasks["add"].delay(1, 2).get(timeout=PATIENCE) == 3
    wait_for(lambda: ask.stats()["total"].get("add") == before + 1)
    assert "software -> celery:" in ask.report()["ok"]


def test_what_it_knows(app: Any, ask: Any) -> None:
    assert set(ask.registered()) >= {"add [rate_limit=10/m]", "hold"}
    assert "hold [name=hold]" in ask.registered("name")
    (queue,) = ask.active_queues()
    assert (queue["name"], queue["exchange"]["type"]) == ("celery", "direct")
    conf = ask.conf()
    assert conf["broker_url"] == app.conf.broker_url
    assert "task_default_queue" not in conf
    assert ask.conf(with_defaults=True)["task_default_queue"] == "celery"


def test_revoked_tasks_are_those_of_the_store_and_of_other_workers(app: Any, ask: Any) -> None:
    mine = app.tasks["add"].apply_async((1, 2), countdown=3600)
    mine.revoke()
    try:
        told = ask.hello("w2@box", revoked={"theirs": 1})
        assert "theirs" in told["revoked"]
        assert set(ask.revoked()) >= {mine.id, "theirs"}
    finally:
        worker_state.revoked.discard("theirs")


def test_memory(ask: Any) -> None:
    assert isinstance(ask.memdump(samples=1), str)
    assert "error" in ask.objgraph()


def test_workers_tell_each_other_at_the_start_what_is_revoked(app: Any) -> None:
    asking = SimpleNamespace(
        app=app, hostname="other@box", steps=[], connect=lambda: app.connection_for_read()
    )
    mingle = Mingle(asking)
    assert mingle.include_if(asking)
    assert not Mingle(asking, without_mingle=True).include_if(asking)
    worker_state.revoked.add("yet-to-come")
    try:
        replies = mingle.send_hello(asking)
        assert replies[NAME]["revoked"] == ["yet-to-come"]
        worker_state.revoked.clear()
        app.clock.value = 1
        mingle.on_node_reply(asking, NAME, {**replies[NAME], "clock": 50})
        assert "yet-to-come" in worker_state.revoked
        assert app.clock.value > 50
    finally:
        worker_state.revoked.clear()
