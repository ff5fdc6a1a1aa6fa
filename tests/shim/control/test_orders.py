"""What a worker is told to do, and commands of a program's own."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.shim.control.working import NAME
from tests.waiting import PATIENCE, wait_for

from celery import signals, uuid
from celery.app.control import flatten_reply
from celery.exceptions import DuplicateNodenameWarning, TaskRevokedError
from celery.worker import state as worker_state
from celery.worker.control import Panel, control_command, inspect_command
from taskmq_celery.engine import engine_for

pytestmark = pytest.mark.integration


@pytest.fixture
def panel() -> Iterator[None]:
    """The commands are as before afterwards."""
    data, meta = dict(Panel.data), dict(Panel.meta)
    yield
    Panel.data.clear()
    Panel.data.update(data)
    Panel.meta.clear()
    Panel.meta.update(meta)


def test_queues_are_taken_up_and_left_while_it_runs(app: Any, order: Any, ask: Any) -> None:
    def names() -> list[str]:
        return [queue["name"] for queue in ask.active_queues()]

    before = names()
    early = app.tasks["add"].apply_async((1, 2), queue="more")
    assert order("add_consumer", queue="more") == {"ok": "add consumer more"}
    assert early.get(timeout=PATIENCE) == 3
    assert order("add_consumer", queue="more") == {"ok": "add consumer more"}
    assert names() == [*before, "more"]
    late = app.tasks["add"].apply_async((3, 4), queue="more")
    assert late.get(timeout=PATIENCE) == 7
    assert order("cancel_consumer", queue="more") == {"ok": "no longer consuming from more"}
    assert names() == before
    left = app.tasks["add"].apply_async((1, 1), queue="more")
    assert app.tasks["add"].delay(2, 2).get(timeout=PATIENCE) == 4
    assert left.state == "PENDING"
    left.revoke()


@pytest.mark.parametrize(
    ("command", "arguments", "answer"),
    [
        ("nosuch", {}, "KeyError('nosuch')"),
        ("rate_limit", {"task_name": "add", "rate_limit": "often"}, "Invalid rate limit string"),
        ("rate_limit", {"task_name": "nosuch", "rate_limit": "1/m"}, "unknown task"),
        ("rate_limit", {}, "TypeError"),
        ("time_limit", {"task_name": "nosuch"}, "unknown task"),
        ("revoke", {"task_id": "x", "terminate": True, "signal": "NOPE"}, "SIGNOPE"),
        ("add_consumer", {"queue": ""}, "a queue needs a name"),
        ("autoscale", {"max": 3, "min": 1}, "--autoscale"),
        ("pool_restart", {}, "SIGHUP"),
        ("pool_grow", {"n": 1}, "only 'processes' can change them"),
        ("election", {"id": "1", "topic": "task"}, "chooses nobody"),
    ],
)
def test_what_it_cannot_do_it_says(
    order: Any, command: str, arguments: dict[str, Any], answer: str
) -> None:
    assert answer in order(command, **arguments)["error"]


def test_a_rate_limit_for_this_worker_from_now_on(app: Any, order: Any, ask: Any) -> None:
    held = app.tasks["hold"]
    before = held.rate_limit
    try:
        assert order("rate_limit", task_name="hold", rate_limit="1/h") == {
            "ok": "new rate limit set successfully"
        }
        app.let_go.set()
        first, second = held.delay(), held.delay()
        first.get(timeout=PATIENCE)
        store = engine_for(app).transport

        def put_off() -> bool:
            (record,) = store.get([second.id])
            return record is not None and record.visible_at > time.time() + 30

        wait_for(put_off)
        assert order("rate_limit", task_name="hold", rate_limit=0) == {
            "ok": "rate limit disabled successfully"
        }
        held.delay().get(timeout=PATIENCE)
    finally:
        held.rate_limit = before


def test_revoke_with_an_answer(app: Any) -> None:
    waiting = app.tasks["add"].apply_async((1, 2), countdown=3600)
    (answer,) = app.control.revoke(waiting.id, reply=True, limit=1, timeout=PATIENCE)
    assert answer == {NAME: {"ok": f"tasks {{{waiting.id!r}}} flagged as revoked"}}
    assert waiting.state == "REVOKED"


def test_an_order_to_revoke_from_elsewhere(app: Any, order: Any) -> None:
    waiting = app.tasks["add"].apply_async((1, 2), countdown=3600)
    assert "ok" in order("terminate", signal="SIGTERM", task_id=[waiting.id])
    assert waiting.state == "REVOKED"


def test_revoke_by_stamps(app: Any) -> None:
    gone, stays = (
        app.tasks["add"].apply_async(
            (1, 2), countdown=3600, stamped_headers=["customer"], customer=customer
        )
        for customer in ("a", "b")
    )
    (answer,) = app.control.revoke_by_stamped_headers(
        {"customer": ["a", "c"]}, reply=True, limit=1, timeout=PATIENCE
    )
    assert "flagged as revoked" in answer[NAME]["ok"]
    assert (gone.state, stays.state) == ("REVOKED", "PENDING")


def test_a_task_that_is_revoked_before_it_is_sent(app: Any) -> None:
    told: list[Any] = []

    def hear(request: Any, **kwargs: Any) -> None:
        told.append((request.id, kwargs["terminated"], kwargs["expired"]))

    by_id, stays = uuid(), uuid()
    app.control.revoke(by_id, reply=True, limit=1, timeout=PATIENCE)
    app.control.revoke_by_stamped_headers(
        {"customer": ["x"]}, reply=True, limit=1, timeout=PATIENCE
    )
    add = app.tasks["add"]
    signals.task_revoked.connect(hear)
    add.apply_async((1, 2), task_id=by_id)
    by_stamp = add.apply_async((1, 2), stamped_headers=["customer"], customer=["x", "y"])
    result = add.apply_async((1, 2), task_id=stays, stamped_headers=["customer"], customer="y")
    assert result.get(timeout=PATIENCE) == 3
    for gone in (app.AsyncResult(by_id), by_stamp):
        with pytest.raises(TaskRevokedError):
            gone.get(timeout=PATIENCE)
    assert sorted(told) == sorted([(by_id, False, False), (by_stamp.id, False, False)])
    # Noted when it is settled, which is a moment after its result can be had.
    wait_for(lambda: stays in worker_state.successful_requests)
    worker_state.reset_state()


@pytest.mark.usefixtures("panel")
def test_commands_of_a_program(app: Any, order: Any) -> None:
    @control_command(args=[("n", int)], signature="[N=1]")
    def double(state: Any, n: int = 1) -> Any:
        return {"ok": [state.app.main, state.hostname, state.consumer.hostname, 2 * n]}

    @inspect_command(name="who")
    def is_called_who(state: Any) -> Any:
        return state.consumer.controller.hostname

    @inspect_command()
    def breaks(state: Any) -> None:
        raise ValueError("deliberate")

    @inspect_command()
    def unspeakable(state: Any) -> Any:
        return object()

    assert order("double", n=4) == {"ok": ["controlled", NAME, NAME, 8]}
    assert order("who") == NAME
    assert order("breaks") == {"error": "ValueError('deliberate')"}
    assert "object" in order("unspeakable")["error"]
    assert order("ping") == {"ok": "pong"}


def test_one_name_twice() -> None:
    with pytest.warns(DuplicateNodenameWarning, match=r"node name: w1@box\."):
        assert flatten_reply([{"w1@box": 1}, {"w2@box": 2}, {"w1@box": 3}]) == {
            "w1@box": 3,
            "w2@box": 2,
        }


def test_time_limits_for_calls_that_have_none(app: Any, order: Any, ask: Any) -> None:
    task = app.tasks["hold"]
    try:
        answer = order("time_limit", task_name="hold", soft=20, hard=30)
        assert answer == {"ok": "time limits set successfully"}
        assert "hold [time_limit=30]" in ask.registered("time_limit")
    finally:
        order("time_limit", task_name="hold")
    assert (task.time_limit, task.soft_time_limit) == (None, None)
