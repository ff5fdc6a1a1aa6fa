"""Tracing libraries replace kombu's ``Producer.publish``: it sees every task that is published."""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import pytest
from kombu.messaging import Producer

from celery import Celery, chain, group
from taskmq.worker import Worker
from taskmq_celery.engine import engine_for

pytestmark = pytest.mark.unit

Sent = list[dict[str, Any]]


@pytest.fixture
def app() -> Iterator[Celery]:
    made = Celery("t", broker="memory://", backend="rpc://", set_as_current=False)

    @made.task(name="t.add")
    def add(x: int, y: int = 1) -> int:
        return x + y

    @made.task(name="t.trace", bind=True)
    def trace(self: Any) -> Any:
        return [self.request.get("traceparent"), (self.request.headers or {}).get("traceparent")]

    yield made
    made.close()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> Sent:
    """What a wrapper that bears the name of what it wraps has seen."""
    seen: Sent = []
    original: Any = Producer.publish

    @wraps(original)
    def publish(self: Any, *args: Any, **kwargs: Any) -> Any:
        driver = self.connection.transport.driver_type
        seen.append({**kwargs, "body": args[0], "driver": driver})
        return original(self, *args, **kwargs)

    monkeypatch.setattr(Producer, "publish", publish)
    return seen


def work(app: Celery) -> None:
    app.finalize()
    Worker(engine_for(app, pool="solo"), queues=["celery"], name="w1@box").run_until_idle(10)


def test_it_sees_headers_body_and_place_of_a_task(app: Celery, sent: Sent) -> None:
    result = app.tasks["t.add"].apply_async((1,), {"y": 2}, task_id="id-1", headers={"own": "x"})
    (one,) = sent
    shown = {name: one["headers"][name] for name in ("task", "id", "retries", "own")}
    assert shown == {"task": "t.add", "id": "id-1", "retries": 0, "own": "x"}
    assert (one["exchange"], one["routing_key"], one["driver"]) == ("", "celery", "memory")
    assert one["body"][0] == (1,)
    assert one["body"][1] == {"y": 2}
    work(app)
    assert result.get(timeout=1) == 3


def test_each_task_of_a_group_and_the_first_of_a_chain_is_seen_and_all_run(
    app: Celery, sent: Sent
) -> None:
    add = app.tasks["t.add"]
    result = chain(group(add.s(1), add.s(2)), app.signature("celery.accumulate")).apply_async()
    third = chain(add.s(3), add.s(4)).apply_async()
    assert [one["headers"]["task"] for one in sent] == ["t.add"] * 3
    work(app)
    assert third.get(timeout=1) == 8
    assert result.parent.get(timeout=1) == [2, 3]


def test_headers_that_it_adds_arrive_with_the_task(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    original: Any = Producer._publish

    def publish(self: Any, body: Any, priority: Any, kind: Any, encoding: Any, headers: Any,
                *args: Any, **kwargs: Any) -> Any:  # fmt: skip
        headers["traceparent"] = "00-abc"
        return original(self, body, priority, kind, encoding, headers, *args, **kwargs)

    monkeypatch.setattr(Producer, "_publish", publish)
    result = app.tasks["t.trace"].delay()
    work(app)
    assert result.get(timeout=1)[0] == "00-abc"


def test_a_producer_that_does_not_publish_stores_nothing(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Producer, "_publish", lambda *args: None)
    assert app.tasks["t.add"].apply_async((1,), task_id="id-1").id == "id-1"
    assert engine_for(app).transport.get(["id-1"]) == [None]


def test_nothing_of_kombus_is_used_as_long_as_nothing_is_replaced(
    app: Celery, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a producer was made")

    made: Callable[..., None] = refuse
    monkeypatch.setattr("celery.app.patched_producer._Channel", made)
    app.tasks["t.add"].delay(1)


def test_apps_of_a_process_share_the_broker_in_memory(app: Celery) -> None:
    other = Celery("o", broker="memory://", backend="rpc://", set_as_current=False)
    try:
        sent = other.send_task("t.add", (1,))
        work(app)
        assert sent.get(timeout=1) == 2
    finally:
        other.close()
