"""From a dispatcher to a receiver, through kombu; ``task-sent``; events of one's own."""

# mypy: disable-error-code="untyped-decorator"
# Celery's decorators carry no types.

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import Any

import pytest

from celery import chain, group
from celery.exceptions import ImproperlyConfigured

SENT = {
    *("hostname", "utcoffset", "pid", "clock", "uuid", "root_id", "parent_id", "name", "args"),
    *("kwargs", "retries", "eta", "expires", "queue", "exchange", "routing_key"),
    *("timestamp", "type", "local_received"),
}


def test_an_event_arrives_with_who_and_when(app: Any, listen: Callable[..., Any]) -> None:
    heard = listen(app)
    with app.events.default_dispatcher(hostname="me@here") as dispatcher:
        dispatcher.send("weather-changed", to="rain")
    (event,) = heard.until("weather-changed")
    assert (event["hostname"], event["to"]) == ("me@here", "rain")
    assert event["local_received"] >= event["timestamp"]
    assert event["clock"] <= app.clock.value


def test_events_of_a_group_travel_together(app: Any, listen: Callable[..., Any]) -> None:
    heard = listen(app)
    kept: list[None] = []
    with app.connection_for_write() as connection:
        dispatcher = app.events.Dispatcher(
            connection,
            buffer_group={"task"},
            buffer_limit=3,
            on_send_buffered=lambda: kept.append(None),
        )
        for number in range(4):
            dispatcher.send("task-progress", number=number)
        assert [event["number"] for event in heard.until("task-progress", 3)] == [0, 1, 2]
        assert len(kept) == 3
        dispatcher.flush()
        assert [event["number"] for event in heard.until("task-progress", 4)] == [0, 1, 2, 3]


def test_only_groups_that_are_wanted(app: Any, listen: Callable[..., Any]) -> None:
    heard = listen(app)
    with app.connection_for_write() as connection:
        with app.events.Dispatcher(connection, groups={"worker"}) as dispatcher:
            dispatcher.send("task-started", uuid="id")
            dispatcher.send("worker-online")
            dispatcher.disable()
            dispatcher.send("worker-offline")
            dispatcher.enable()
            dispatcher.send("worker-heartbeat")
        heard.until("worker-heartbeat")
    assert [event["type"] for event in heard.events] == ["worker-online", "worker-heartbeat"]


def test_what_cannot_be_sent_is_kept_for_later(app: Any, listen: Callable[..., Any]) -> None:
    heard = listen(app)
    with app.connection_for_write() as connection:
        dispatcher = app.events.Dispatcher(connection)
        dispatcher.producer = Broken()
        dispatcher.send("worker-online")
        successor = app.events.Dispatcher(connection)
        successor.extend_buffer(dispatcher)
        successor.flush()
        heard.until("worker-online")
        dispatcher.buffer_while_offline = False
        with pytest.raises(ConnectionError):
            dispatcher.send("worker-online")


class Broken:
    """A producer whose connection is gone."""

    def publish(self, *args: Any, **kwargs: Any) -> None:
        raise ConnectionError("gone")


def test_a_receiver_stops_after_so_many(app: Any) -> None:
    with app.connection_for_write() as connection:
        dispatcher = app.events.Dispatcher(connection)
        seen: list[str] = []
        receiver = app.events.Receiver(
            connection, handlers={"worker-online": lambda event: seen.append(event["hostname"])}
        )
        capturing = receiver.itercapture(limit=2, wakeup=False)
        receiver.on_consume_ready = lambda *args, **kwargs: [
            dispatcher.send(kind) for kind in ("worker-online", "worker-offline", "worker-online")
        ]
        assert len([*capturing]) == 2
        assert seen == [dispatcher.hostname]
        with pytest.raises(socket.timeout):
            receiver.capture(timeout=0.001, wakeup=False)


def test_a_queue_is_exclusive_or_durable(app: Any) -> None:
    with pytest.raises(ImproperlyConfigured, match="event_queue_durable"):
        app.events.Receiver(app.connection_for_read(), queue_durable=True, queue_exclusive=True)


def test_stores_that_kombu_does_not_know_carry_none(
    make_app: Callable[..., Any], tmp_path: Any
) -> None:
    app = make_app(f"sqlite:///{tmp_path}/jobs.db", task_send_sent_event=True)

    @app.task(bind=True)
    def work(self: Any) -> None:
        self.send_event("task-progress")

    assert not app.events.Dispatcher().enabled
    work.delay()
    work()


# -- task-sent -----------------------------------------------------------------------------------


def test_calling_a_task_is_told_if_that_is_wanted(
    make_app: Callable[..., Any], listen: Callable[..., Any]
) -> None:
    app = make_app(task_send_sent_event=True)
    heard = listen(app)
    options = {"countdown": 60, "queue": "slow", "argsrepr": "(<secret>)"}
    called = app.send_task("proj.add", (1,), {"y": 2}, **options)
    (event,) = heard.until("task-sent")
    assert event.keys() == SENT
    assert (event["uuid"], event["name"], event["queue"]) == (called.id, "proj.add", "slow")
    assert (event["args"], event["kwargs"]) == ("(<secret>)", "{'y': 2}")
    assert event["eta"]
    app.conf.task_send_sent_event = False
    app.send_task("proj.add", (1,))
    app.conf.task_send_sent_event = True
    last = app.send_task("proj.add", (1,))
    assert [each["uuid"] for each in heard.until("task-sent", 2)] == [called.id, last.id]


def test_a_canvas_is_told_as_a_whole(
    make_app: Callable[..., Any], listen: Callable[..., Any]
) -> None:
    app = make_app(task_send_sent_event=True)
    heard = listen(app)

    @app.task(name="add")
    def add(x: int, y: int) -> int:
        return x + y

    chain(add.s(1, 2), group(add.s(n) for n in range(3))).delay()
    events = heard.until("task-sent", 4)
    assert [event["name"] for event in events] == ["add"] * 4
    assert len({event["uuid"] for event in events}) == 4
    assert [event["args"] for event in events] == ["(1, 2)", "(0,)", "(1,)", "(2,)"]


def test_an_event_that_could_not_be_sent_is_sent_with_the_next(
    make_app: Callable[..., Any],
    listen: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = make_app(task_send_sent_event=True, task_publish_retry_policy={"max_retries": 0})
    heard = listen(app)
    tried: list[str] = []

    def lose(*args: Any, routing_key: str, **options: Any) -> None:
        tried.append(routing_key)
        raise OSError("gone")

    with app.connection_for_write() as connection:
        producer = app.amqp.Producer(connection)
        with monkeypatch.context() as patch:
            patch.setattr(producer.channel, "basic_publish", lose)
            first = app.send_task("proj.add", (1,), producer=producer)
        assert tried == ["task.sent"]
        assert app.amqp._event_dispatcher.kept == 1
        assert "The event that 1 tasks were sent is kept for later" in caplog.text
        last = app.send_task("proj.add", (2,), producer=producer)
    assert [each["uuid"] for each in heard.until("task-sent", 2)] == [last.id, first.id]
    assert app.amqp._event_dispatcher.kept == 0


def test_a_task_is_sent_though_nobody_can_be_told(
    make_app: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = make_app(task_send_sent_event=True)
    monkeypatch.setattr(app.amqp._event_dispatcher, "publish", Broken().publish)
    with caplog.at_level(logging.WARNING, "celery.app.sent_events"):
        called = app.send_task("proj.add", (1,))
    assert "No event says that 1 tasks were sent: gone" in caplog.text
    assert app.AsyncResult(called.id).state == "PENDING"
    assert app.control.purge() == 1
