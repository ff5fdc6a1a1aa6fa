"""The picture of the cluster: what is known after which events, in which order they may come."""

from __future__ import annotations

import copy
import pickle
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from celery import states
from celery.events import Event
from celery.events import state as state_module
from celery.events.state import State, Task, Worker, heartbeat_expires

LIFE: list[tuple[str, dict[str, Any]]] = [
    ("sent", {"name": "add", "args": "(1,)", "kwargs": "{}", "queue": "celery"}),
    ("received", {"name": "add", "args": "(1,)", "kwargs": "{}", "retries": 0, "eta": None}),
    ("started", {}),
    ("succeeded", {"result": "2", "runtime": 0.5}),
]
HOSTS = {"sent": "client"}


def task_event(kind: str, clock: int = 1, uuid: str = "id", **fields: Any) -> dict[str, Any]:
    about = {"timestamp": time.time(), "hostname": HOSTS.get(kind, "w1"), **fields}
    about["local_received"] = about["timestamp"]
    return Event(f"task-{kind}", uuid=uuid, clock=clock, **about)


def worker_event(kind: str, hostname: str = "w1", **fields: Any) -> dict[str, Any]:
    now = time.time()
    return Event(
        f"worker-{kind}", hostname=hostname, **{"timestamp": now, "local_received": now, **fields}
    )


def pickled(state: State) -> Any:
    return pickle.loads(pickle.dumps(state))  # noqa: S301  # our own


@given(st.permutations(list(enumerate(LIFE, start=1))))
def test_whatever_the_order_the_same_is_known(events: Any) -> None:
    state = State()
    for clock, (kind, fields) in events:
        state.event(task_event(kind, clock, timestamp=100.0 + clock, **fields))
    task = state.tasks["id"]
    assert task.state == states.SUCCESS
    assert (task.name, task.args, task.result, task.runtime) == ("add", "(1,)", "2", 0.5)
    assert (task.sent, task.received, task.started, task.succeeded) == (101.0, 102.0, 103.0, 104.0)
    assert task.timestamp == 104.0
    assert (task.client, task.worker.hostname) == ("client", "w1")


@given(st.permutations(range(12)))
def test_tasks_come_in_the_order_of_the_logical_clock(clocks: list[int]) -> None:
    state = State()
    for clock in clocks:
        state.event(task_event("received", clock + 1, uuid=f"t{clock % 4}", name="add"))
    newest_first = [uuid for uuid, _ in state.tasks_by_time()]
    assert newest_first == ["t3", "t2", "t1", "t0"]
    assert [uuid for uuid, _ in state.tasks_by_time(limit=2)] == ["t3", "t2"]
    assert [uuid for uuid, _ in state.tasks_by_time(reverse=False)] == ["t0", "t1", "t2", "t3"]


def test_a_retry_starts_over() -> None:
    state = State()
    kinds = ("received", "started", "retried", "received", "started", "failed")
    for clock, kind in enumerate(kinds, start=1):
        state.event(task_event(kind, clock))
        if kind == "retried":
            assert state.tasks["id"].state == states.RETRY
    assert state.tasks["id"].state == states.FAILURE
    assert state.task_count == 2


def test_an_event_of_ones_own_is_a_state_of_ones_own() -> None:
    state = State()
    state.event(task_event("received", 1))
    answer = state.event(task_event("progress", 2, percent=30))
    task = state.tasks["id"]
    assert answer == ((task, False), "progress")
    assert (task.state, task.percent) == ("PROGRESS", 30)


def test_a_worker_is_alive_for_two_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(state_module, "time", lambda: now[0])
    state = State()
    state.event(worker_event("heartbeat", timestamp=1000.0, local_received=1000.0, freq=2.0))
    worker = state.workers["w1"]
    assert worker.heartbeat_expires == heartbeat_expires(1000.0, 2.0) == 1004.0
    now[0] = 1003.9
    assert worker.alive
    assert [*state.alive_workers()] == [worker]
    now[0] = 1004.0
    assert worker.status_string == "OFFLINE"
    state.event(task_event("started", timestamp=1004.0) | {"local_received": 1004.0})
    assert worker.alive  # what it says of a task says that it lives


def test_a_worker_that_leaves_is_offline_at_once() -> None:
    state = State()
    state.event(worker_event("online"))
    assert state.workers["w1"].alive
    state.event(worker_event("offline"))
    assert not state.workers["w1"].alive


def test_who_joins_and_leaves_is_told() -> None:
    joined: list[Worker] = []
    left: list[Worker] = []
    state = State(on_node_join=joined.append, on_node_leave=left.append)
    for kind in ("heartbeat", "heartbeat", "online", "offline", "offline"):
        state.event(worker_event(kind))
    assert joined == [Worker("w1")] * 2
    assert left == [Worker("w1")] * 2
    assert not state.workers


def test_clocks_that_are_apart_are_warned_of_once() -> None:
    worker = Worker("late-by-a-minute")
    with pytest.warns(UserWarning, match=r"Substantial drift from late-by-a-minute: .* 60 seconds"):
        worker.event(None, 1000.0, 1060.0)
    worker.event(None, 1001.0, 1061.0)  # warnings are errors here


def test_only_the_last_are_kept() -> None:
    state = State(max_tasks_in_memory=3, max_workers_in_memory=2)
    for number in range(20):
        for kind in ("received", "started"):
            parent = {"name": "add", "parent_id": f"nobody{number}"}
            event = task_event(kind, number + 1, uuid=f"t{number}", hostname=f"w{number}", **parent)
            state.event(event)
    assert [uuid for uuid, _ in state.itertasks()] == ["t17", "t18", "t19"]
    assert [*state.workers] == ["w18", "w19"]
    assert len(state._taskheap) <= 3 * state.heap_multiplier
    assert len(state._tasks_to_resolve) <= 3
    assert {task.uuid for task in state.tasks_by_type["add"]} == {"t17", "t18", "t19"}
    assert len([*state.tasks_by_time()]) == 3


@pytest.mark.parametrize("order", [("parent", "child"), ("child", "parent")])
def test_families(order: tuple[str, str]) -> None:
    events = {
        "parent": task_event("received", 1, uuid="parent", name="p"),
        "child": task_event("received", 2, uuid="child", parent_id="parent", root_id="parent"),
    }
    state = State()
    for name in order:
        state.event(events[name])
    parent, child = state.tasks["parent"], state.tasks["child"]
    assert child.parent is child.root is parent
    assert list(parent.children) == [child]
    assert parent.as_dict()["children"] == ["child"]
    assert child.as_dict()["parent"] == "parent"


def test_by_worker_and_by_type() -> None:
    state = State()
    for number in range(6):
        fields = {"name": f"type{number % 2}", "hostname": f"w{number % 3}"}
        state.event(task_event("received", number + 1, uuid=f"t{number}", **fields))
    assert state.task_types() == ["type0", "type1"]
    assert [uuid for uuid, _ in state.tasks_by_type("type1")] == ["t5", "t3", "t1"]
    assert [uuid for uuid, _ in state.tasks_by_type("type1", limit=1)] == ["t5"]
    assert [uuid for uuid, _ in state.tasks_by_worker("w0", reverse=False)] == ["t0", "t3"]
    assert [*state.tasks_by_type("unheard")] == []


def test_clearing_leaves_what_is_not_over() -> None:
    state = State()
    state.event(task_event("succeeded", 1, uuid="over"))
    state.event(task_event("started", 2, uuid="running"))
    state.clear_tasks()
    assert [uuid for uuid, _ in state.tasks_by_time()] == ["running"]
    assert state.freeze_while(lambda: state.event_count, clear_after=True) == 2
    assert (state.event_count, len(state.workers), len(state.tasks)) == (0, 0, 1)
    state.clear(ready=False)
    assert not state.tasks


@pytest.mark.parametrize("copied", [pickled, copy.deepcopy])
def test_copies_know_the_same(copied: Any) -> None:
    state = State(max_tasks_in_memory=50)
    for number, (kind, fields) in enumerate(LIFE, start=1):
        state.event(task_event(kind, number, uuid="parent", **fields))
    state.event(task_event("received", 9, uuid="child", name="sub", parent_id="parent", extra=1))
    other = copied(state)
    assert other.tasks["parent"].state == states.SUCCESS
    assert other.tasks["child"].extra == 1
    assert other.tasks["child"].parent is other.tasks["parent"]
    assert [task.uuid for task in other.tasks["parent"].children] == ["child"]
    assert [uuid for uuid, _ in other.tasks_by_worker("w1")] == ["child", "parent"]
    assert [uuid for uuid, _ in other.tasks_by_time()] == ["child", "parent"]
    assert other.workers["w1"].heartbeats == state.workers["w1"].heartbeats
    other.event(task_event("started", 10, uuid="child"))
    assert state.tasks["child"].state == states.RECEIVED


def test_what_is_no_event_of_a_worker_or_task() -> None:
    class Own(State):
        def deploy_event(self, subject: str, event: dict[str, Any]) -> str:
            return f"{subject} by {event['who']}"

    heard: list[str] = []
    state = Own(callback=lambda state, event: heard.append(event["type"]))
    assert state.event({"type": "deploy-done", "who": "me"}) == ("done by me", "done")
    assert state.event({"type": "weather-report"}) is None
    assert state.event({"type": "worker-online"}) is None  # of nobody
    assert heard == ["deploy-done", "weather-report", "worker-online"]
    assert state.event_count == 3


def test_info_is_what_is_known() -> None:
    task = Task("id", name="add", args="(1,)", runtime=0.5, worker="w1")
    assert task.info() == {"args": "(1,)", "runtime": 0.5}
    assert task.info(["args", "eta"], extra=["worker"]) == {"args": "(1,)", "worker": "w1"}
    assert (task.id, task.ready, task.root) == ("id", False, None)
