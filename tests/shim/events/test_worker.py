"""What a worker tells of itself and of its tasks, and to whom."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.waiting import PATIENCE

from celery import Celery, signals
from celery.contrib.testing.worker import start_worker
from celery.events.state import State
from celery.exceptions import Ignore, Reject
from celery.worker.events import Groups

NAME = "w1@box"
OF_ALL = {"hostname", "utcoffset", "pid", "clock", "uuid", "timestamp", "type", "local_received"}
OF_A_WORKER = {"freq", "active", "processed", "loadavg", "sw_ident", "sw_ver", "sw_sys"}


def add_tasks(app: Any) -> Any:
    app.let_go = threading.Event()

    @app.task(name="add")
    def add(x: int, y: int) -> int:
        return x + y

    @app.task(name="fail")
    def fail() -> None:
        raise KeyError("why")

    @app.task(name="again", bind=True, max_retries=1)
    def again(self: Any) -> str:
        if self.request.retries:
            return "done"
        raise self.retry(exc=ValueError("not yet"), countdown=0)

    @app.task(name="reject", acks_late=True)
    def reject() -> None:
        raise Reject("unwanted")

    @app.task(name="ignore")
    def ignore() -> None:
        raise Ignore

    @app.task(name="progress", bind=True)
    def progress(self: Any) -> None:
        self.send_event("task-progress", percent=30)

    @app.task(name="secret", send_events=False)
    def secret() -> None: ...

    @app.task(name="hold")
    def hold() -> None:
        app.let_go.wait(PATIENCE)

    return app


@pytest.fixture
def app(app: Any) -> Iterator[Any]:
    yield add_tasks(app)
    app.let_go.set()


def worker_of(app: Any, **options: Any) -> Any:
    given = {"hostname": NAME, "pool": "threads", "perform_ping_check": False, **options}
    return start_worker(app, **given)


def types_of(heard: Any, task_id: str) -> list[str]:
    return [event["type"] for event in heard.events if event.get("uuid") == task_id]


def test_it_says_that_it_lives(app: Any, listen: Callable[..., Any]) -> None:
    heard = listen(app)
    sent: list[Any] = []

    def on_heartbeat(sender: Any, **_: Any) -> None:
        sent.append(sender)

    signals.heartbeat_sent.connect(on_heartbeat)
    with worker_of(app, heartbeat_interval=0.01):
        app.send_task("add", (1, 2)).get(timeout=PATIENCE)
        heard.until("worker-heartbeat", 2)
    heard.until("worker-offline")
    signals.heartbeat_sent.disconnect(on_heartbeat)
    kinds = [event["type"] for event in heard.events]
    assert (kinds[0], kinds[-1]) == ("worker-online", "worker-offline")
    assert set(kinds[1:-1]) == {"worker-heartbeat"}
    for event in heard.events:
        assert event.keys() == OF_ALL - {"uuid"} | OF_A_WORKER
        assert (event["hostname"], event["freq"], event["pid"]) == (NAME, 0.01, os.getpid())
    assert heard.events[-1]["processed"] == 1
    assert len(sent) >= len(kinds)


def test_without_heartbeat(app: Any, listen: Callable[..., Any]) -> None:
    heard = listen(app)
    with worker_of(app, without_heartbeat=True, task_events=True):
        app.send_task("add", (1, 2))
        heard.until("task-succeeded")
    assert {event["type"].partition("-")[0] for event in heard.events} == {"task"}


def test_tasks_are_told_of_from_arrival_to_end(app: Any, listen: Callable[..., Any]) -> None:
    heard = listen(app)
    with worker_of(app, task_events=True, concurrency=1, without_heartbeat=True):
        ids = {
            name: app.send_task(name, args).id
            for name, args in [
                ("add", (1, 2)),
                ("fail", ()),
                ("again", ()),
                ("reject", ()),
                ("ignore", ()),
                ("secret", ()),
                ("progress", ()),
            ]
        }
        heard.until("task-succeeded", 3)
    begin = ["task-received", "task-started"]
    assert types_of(heard, ids["add"]) == [*begin, "task-succeeded"]
    assert types_of(heard, ids["fail"]) == [*begin, "task-failed"]
    assert types_of(heard, ids["again"]) == [*begin, "task-retried", *begin, "task-succeeded"]
    assert types_of(heard, ids["reject"]) == [*begin, "task-failed", "task-rejected"]
    assert types_of(heard, ids["ignore"]) == begin
    assert types_of(heard, ids["secret"]) == []
    assert types_of(heard, ids["progress"]) == [*begin, "task-progress", "task-succeeded"]
    state = State()
    for event in heard.events:
        state.event(event)
    task = state.tasks[ids["add"]]
    assert (task.name, task.args, task.kwargs, task.result) == ("add", "(1, 2)", "{}", "3")
    assert task.received <= task.started <= task.succeeded
    assert 0 <= task.runtime < PATIENCE
    failed = state.tasks[ids["fail"]]
    assert failed.exception == "KeyError('why')"
    assert "in fail\n" in failed.traceback
    (retried,) = heard.until("task-retried")
    assert retried["exception"] == "ValueError('not yet')"
    (rejected,) = heard.until("task-rejected")
    assert rejected["requeue"] is False
    (received, *_) = heard.until("task-received")
    more = {"name", "args", "kwargs", "root_id", "parent_id", "retries", "eta", "expires"}
    assert received.keys() == OF_ALL | more


def test_tasks_that_do_not_run_are_told_of(app: Any, listen: Callable[..., Any]) -> None:
    heard = listen(app)
    with worker_of(app, task_events=True, concurrency=1, without_heartbeat=True):
        app.send_task("hold")
        heard.until("task-started")
        late = app.send_task("add", (1, 2), expires=0.000_001).id
        app.let_go.set()
        (event,) = heard.until("task-revoked")
    assert event["uuid"] == late
    told = (event["expired"], event["terminated"], event["signum"])
    assert told == (True, False, None)


def test_orders_switch_them_on_and_off(app: Any, listen: Callable[..., Any]) -> None:
    heard = listen(app)

    def order(command: str) -> Any:
        give = getattr(app.control, command)
        (answer,) = give(destination=[NAME], reply=True, limit=1, timeout=PATIENCE)
        return answer[NAME]

    with worker_of(app, without_heartbeat=True):
        unheard = app.send_task("add", (1, 2))
        unheard.get(timeout=PATIENCE)
        assert order("disable_events") == {"ok": "task events already disabled"}
        assert order("enable_events") == {"ok": "task events enabled"}
        assert order("enable_events") == {"ok": "task events already enabled"}
        listened = app.send_task("add", (1, 2))
        heard.until("task-succeeded")
        assert order("disable_events") == {"ok": "task events disabled"}
        app.send_task("add", (1, 2)).get(timeout=PATIENCE)
        app.control.heartbeat(destination=[NAME])
        heard.until("worker-heartbeat")
    assert {event["uuid"] for event in heard.events if "uuid" in event} == {listened.id}


def test_a_broker_that_carries_none(make_app: Callable[..., Any], tmp_path: Any) -> None:
    app = add_tasks(make_app(f"sqlite:///{tmp_path}/jobs.db"))
    with worker_of(app, task_events=True) as worker:
        assert worker.consumer.event_dispatcher is None
        assert app.send_task("progress").get(timeout=PATIENCE) is None


def test_groups_are_shared_with_children() -> None:
    groups = Groups(["worker"])
    assert set(groups) == {"worker"}
    pid = os.fork()
    if pid == 0:
        groups.add("task")
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert set(groups) == {"worker", "task"}
    groups.discard("worker")
    groups.discard("unheard")
    assert (set(groups), len(groups)) == ({"task"}, 1)


@pytest.mark.integration
def test_child_processes_tell_of_their_tasks(
    program: Any, redis_url: str, listen: Callable[..., Any]
) -> None:
    program.environment["CELERY_BROKER_URL"] = redis_url
    program.add_to_tasks(
        """
        import time

        @app.task
        def hold():
            time.sleep(600)

        """
    )
    app = Celery(broker=redis_url, set_as_current=False)
    heard = listen(app)
    worker = program.ready_worker("-P", "prefork", "-c", "2", "-n", NAME, "-E")
    added = app.send_task("proj.add", (1, 2)).id
    held = app.send_task("proj.hold").id
    heard.until("task-started", 2)
    app.control.revoke(held, terminate=True)
    (revoked,) = heard.until("task-revoked")
    assert (revoked["uuid"], revoked["terminated"], revoked["signum"]) == (held, True, 15)
    over = app.send_task("proj.hold", time_limit=0.2).id
    (failed,) = heard.until("task-failed")
    assert (failed["uuid"], failed["exception"]) == (over, "TimeLimitExceeded(0.2)")
    (succeeded,) = heard.until("task-succeeded")
    assert (succeeded["uuid"], succeeded["result"]) == (added, "3")
    assert succeeded["hostname"] == NAME
    assert succeeded["pid"] != worker.process.pid
    assert worker.stop(signal.SIGTERM) == os.EX_OK
    (offline,) = heard.until("worker-offline")
    assert offline["pid"] == worker.process.pid
    app.close()
