"""`celery.contrib.migrate`: messages of a real Celery, moved by kombu."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from kombu.connection import Connection
from kombu.entity import Queue
from kombu.messaging import Producer

from celery import Celery
from celery.contrib import migrate

pytestmark = pytest.mark.integration


@pytest.fixture
def broker() -> Iterator[Connection]:
    """Kombu's own broker in memory; it is one for the whole process."""
    with Connection("memory://", transport_options={"polling_interval": 0.001}) as connection:
        yield connection


@pytest.fixture
def source(app: Celery, broker: Connection) -> Any:
    """A queue with the messages of three tasks."""
    queue = Queue(f"from-{uuid.uuid4()}")
    queue = app.amqp.queues.add(queue)
    producer = Producer(broker)
    for number, name in enumerate(("add", "mul", "add")):
        message = app.amqp.as_task_v1(f"id-{number}", name, (number,))
        app.amqp.send_task_message(producer, name, message, queue=queue)
    return queue


def waiting(broker: Connection, queue: Any) -> list[Any]:
    bound, found = queue(broker.default_channel), []
    while (message := bound.get(accept=["json"])) is not None:
        found.append(message.payload["args"][0])
        message.ack()
    return found


def test_by_task(app: Celery, broker: Connection, source: Any) -> None:
    target = Queue(f"to-{uuid.uuid4()}")
    state = migrate.move_by_taskmap({"add": target}, source=[source], app=app, timeout=0.05)
    assert state.filtered == 2
    assert waiting(broker, target) == [0, 2]


def test_by_id(app: Celery, broker: Connection, source: Any) -> None:
    target = Queue(f"to-{uuid.uuid4()}")
    seen: list[str] = []
    migrate.move_task_by_id(
        "id-1",
        target,
        source=[source.name],
        callback=lambda state, body, message: seen.append(body["id"]),
        app=app,
        timeout=0.05,
    )
    assert seen == ["id-1"]
    assert waiting(broker, target) == [1]


def test_to_another_broker(app: Celery, broker: Connection, source: Any) -> None:
    renamed = f"to-{uuid.uuid4()}"
    migrate.migrate_tasks(
        broker, broker, app=app, queues=f"{source.name}:{renamed}", timeout=0.05, ack_messages=True
    )
    assert waiting(broker, Queue(renamed)) == [0, 1, 2]
    assert waiting(broker, source) == []


def test_names_of_queues() -> None:
    assert migrate.prepare_queues("a,b:c") == {"a": "a", "b": "c"}
    assert migrate.expand_dest(("x", "y"), "a", "b") == ("x", "y")
    assert migrate.expand_dest(True, "a", "b") == ("a", "b")
