"""``app.amqp``: queues, routes, and messages for a broker's own queues."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock
from zoneinfo import ZoneInfo

import pytest
from kombu.entity import Exchange, Queue
from kombu.exceptions import OperationalError

from celery import Celery, signals
from celery.app.amqp import Queues
from celery.app.routes import MapRoute, Router, prepare
from celery.app.task import Context

pytestmark = pytest.mark.unit
MakeApp = Callable[..., Celery]


def test_what_a_queue_lacks_comes_from_the_defaults() -> None:
    queues = Queues(default_exchange=Exchange("mail"), default_routing_key="key", max_priority=9)
    queues["a"] = Queue("a")
    queues.add("b", exchange="other", exchange_type="topic", routing_key="b.#")
    assert (queues["a"].exchange.name, queues["a"].routing_key) == ("mail", "key")
    assert (queues["b"].exchange.type, queues["b"].routing_key) == ("topic", "b.#")
    assert queues["b"].queue_arguments == {"x-max-priority": 9}


def test_queues_that_are_made_when_they_are_named() -> None:
    queues = Queues(create_missing_queue_type="quorum", create_missing_queue_exchange_type="topic")
    assert queues["new"].queue_arguments == {"x-queue-type": "quorum"}
    assert queues["new"].exchange.type == "topic"
    with pytest.raises(ValueError, match="Invalid queue type 'odd'"):
        Queues(create_missing_queue_type="odd")["new"]
    with pytest.raises(KeyError):
        Queues(create_missing=False)["new"]


def test_which_queues_are_consumed_from() -> None:
    queues = Queues([Queue("a", alias="first"), Queue("b"), Queue("c")])
    queues.deselect("first")
    queues.add("for_routing")
    assert list(queues.consume_from) == ["b", "c"]
    queues.select_add("d")
    assert list(queues.consume_from) == ["b", "c", "d"]
    queues.select(["first", "b"])
    assert list(queues.consume_from) == ["a", "b"]
    queues.deselect(["a", "unknown"])
    assert list(queues.consume_from) == ["b"]


def test_the_queues_of_the_settings(make_app: MakeApp) -> None:
    app = make_app(task_default_queue="mail", task_default_queue_type="quorum")
    assert list(app.amqp.queues) == ["mail"]
    assert app.amqp.queues["mail"].queue_arguments == {"x-queue-type": "quorum"}
    made = app.amqp.Queues({"a": {"exchange": "x", "binding_key": "k"}}, max_priority=3)
    assert (made["a"].exchange.name, made["a"].routing_key, made.max_priority) == ("x", "k", 3)


class OldRouter:
    def route_for_task(self, task: str, args: Any, kwargs: Any) -> Any:
        return "old" if task == "old.task" else None


def test_the_first_route_that_answers(make_app: MakeApp) -> None:
    app = make_app()
    given = prepare([{"a.*": "first"}, {"a.b": "second"}, OldRouter()])
    router = Router(given, app.amqp.queues, app=app)

    def queue_of(name: str, **options: Any) -> str:
        return str(router.route(options, name)["queue"].name)

    assert queue_of("a.b") == "first"
    assert queue_of("old.task") == "old"
    assert queue_of("other") == "celery"
    assert queue_of("a.b", queue="mine") == "mine"
    assert "queue" not in router.route({"exchange": "x"}, "other")
    assert isinstance(prepare({"a": "b"})[0], MapRoute)


def test_times_of_a_message_across_a_change_of_clocks(make_app: MakeApp) -> None:
    app = make_app(timezone="America/New_York")
    zone = ZoneInfo("America/New_York")
    now = datetime(2026, 3, 8, 1, 30, tzinfo=zone)
    message = app.amqp.as_task_v2("1", "t", now=now, countdown=5400, expires=5400)
    assert message.headers["eta"] == "2026-03-08T04:00:00-04:00"
    assert message.headers["expires"] == message.headers["eta"]
    with pytest.raises(ValueError, match="countdown is out of range"):
        app.amqp.as_task_v2("1", "t", countdown=-(2**40))


def test_a_message_tells_its_arguments_as_text(make_app: MakeApp) -> None:
    app = make_app()
    deep = [{"a": ["b", {"c": "d"}]}]
    message = app.amqp.as_task_v2("1", "t", args=deep, create_sent_event=True)
    assert message.headers["argsrepr"] == "[{'a': ['b', {...}]}]"
    assert message.sent_event["uuid"] == "1"
    app.conf.task_repr_maxlevels = 0
    assert app.amqp.as_task_v2("1", "t", args=deep).headers["argsrepr"] == repr(deep)


def test_messages_of_protocol_1(make_app: MakeApp) -> None:
    app = make_app(task_protocol=1)
    now = app.now()
    message = app.amqp.create_task_message("1", "t", (2,), {"a": 1}, countdown=5, now=now)
    assert message.headers == {}
    assert message.body["task"] == "t"
    assert message.body["eta"] == (now + timedelta(seconds=5)).isoformat()
    with pytest.raises(TypeError, match="must be a list"):
        app.amqp.as_task_v1("1", "t", args="abc")


def test_publishing_with_a_producer_of_kombus(make_app: MakeApp) -> None:
    app = make_app(task_compression="gzip")
    told: list[dict[str, Any]] = []

    def before(headers: Any, **fields: Any) -> None:
        headers["from"] = "receiver"
        told.append(fields)

    signals.before_task_publish.connect(before)
    try:
        producer, events = Mock(), Mock()
        message = app.amqp.as_task_v2("1", "t", create_sent_event=True)
        app.amqp.send_task_message(
            producer,
            "t",
            message,
            queue="mail",
            headers={"x": 1},
            retry_policy={"max_retries": 9},
            event_dispatcher=events,
            colour="red",
        )
    finally:
        signals.before_task_publish.disconnect(before)
    sent = producer.publish.call_args.kwargs
    assert (sent["exchange"], sent["routing_key"], sent["compression"]) == ("", "mail", "gzip")
    assert (sent["headers"]["x"], sent["headers"]["from"]) == (1, "receiver")
    assert (sent["colour"], sent["retry_policy"]["max_retries"]) == ("red", 9)
    assert told[0]["routing_key"] == "mail"
    assert events.publish.call_args.args[0] == "task-sent"


def test_a_topic_exchange_keeps_the_routing_key(make_app: MakeApp) -> None:
    app = make_app()
    producer = Mock()
    queue = Queue("a", Exchange("x", type="topic"), routing_key="a.#")
    app.amqp.send_task_message(producer, "t", app.amqp.as_task_v2("1", "t"), queue=queue)
    sent = producer.publish.call_args.kwargs
    assert (sent["exchange"], sent["routing_key"]) == ("x", "a.#")


def test_limits_and_stamps_of_a_request() -> None:
    request = Context(stamped_headers=["team"], stamps={"team": "red", "retries": 99}, retries=2)
    request.update([("timelimit", [30, 20])])
    assert (request.time_limit, request.soft_time_limit) == (30, 20)
    options = request.as_execution_options()
    assert (options["team"], options["retries"]) == ("red", 2)
    assert "argsrepr" not in dir(request)


class Refusing:
    """A producer that the broker refuses so many times."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.sent: list[dict[str, Any]] = []
        self.revived: list[Any] = []
        self.connection = SimpleNamespace(recoverable_connection_errors=(ConnectionResetError,))

    def publish(self, body: Any, **message: Any) -> None:
        self.sent.append(message)
        if self.errors:
            raise self.errors.pop(0)

    def revive(self, connection: Any) -> None:
        self.revived.append(connection)


AT_ONCE = {"max_retries": 2, "interval_start": 0, "interval_step": 0, "interval_max": 0}


def test_what_a_worker_publishes_is_sent_again(make_app: MakeApp) -> None:
    app = make_app(task_publish_retry_policy=AT_ONCE)
    message = app.amqp.as_task_v2("1", "add")
    producer = Refusing(OperationalError("refused"), ConnectionResetError("gone"))
    app.amqp._retry_publish(app.amqp.send_task_message, producer, "add", message)
    assert len(producer.sent) == 3
    assert producer.sent[0] == producer.sent[2]
    assert producer.sent[0]["retry"] is False  # not within each other
    assert producer.revived == [producer.connection]


@pytest.mark.parametrize(
    ("errors", "options", "sends"),
    [
        ([OperationalError("refused")] * 9, {}, 3),
        ([ValueError("no")], {}, 1),
        ([OperationalError("refused")], {"retry": False}, 1),
        ([OperationalError("refused")] * 9, {"retry_policy": {"max_retries": 0}}, 1),
    ],
)
def test_not_for_ever(
    make_app: MakeApp, errors: list[Exception], options: dict[str, Any], sends: int
) -> None:
    app = make_app(task_publish_retry_policy=AT_ONCE)
    producer = Refusing(*errors)
    message = app.amqp.as_task_v2("1", "add")
    with pytest.raises(type(errors[0])):
        app.amqp._retry_publish(app.amqp.send_task_message, producer, "add", message, **options)
    assert len(producer.sent) == sends


def test_a_policy_without_end_has_one_in_a_worker(
    make_app: MakeApp, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(task_publish_retry_policy={**AT_ONCE, "max_retries": None})
    producer = Refusing(*[OperationalError("refused")] * 9)
    message = app.amqp.as_task_v2("1", "add")
    with pytest.raises(OperationalError):
        app.amqp._retry_publish(app.amqp.send_task_message, producer, "add", message)
    assert len(producer.sent) == 4
    assert caplog.text.count("sent again 3 times") == 1


def test_the_router_follows_the_settings_it_is_made_from(make_app: MakeApp) -> None:
    app = make_app(task_routes={"a": "one"})
    before = app.amqp.router
    app.conf.worker_prefetch_multiplier = 1
    assert app.amqp.router is before
    app.conf.task_routes = {"a": "two"}
    assert app.amqp.router.route({}, "a")["queue"].name == "two"
