"""A whole transport without any server: kombu's broker in memory, and jobs in memory."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import cast

import pytest
from tests.waiting import PATIENCE, wait_for

from taskmq import App, Config
from taskmq.ids import new_id
from taskmq.plugins import open_transport
from taskmq.testing import FakeClock
from taskmq.transports.amqp.transport import AmqpTransport
from taskmq.worker import Worker


@pytest.fixture
def transport() -> Iterator[AmqpTransport]:
    url = f"kombu+memory://?namespace={new_id()}&patience=5&state=memory://"
    opened = cast("AmqpTransport", open_transport(url))
    yield opened
    opened.close()


def test_a_worker_runs_what_the_broker_brings(transport: AmqpTransport) -> None:
    app = App(Config(), transport=transport)

    @app.task
    def add(a: int, b: int) -> int:
        return a + b

    handles = [add.delay(number, 1) for number in range(20)]
    Worker(app).run_until_idle(PATIENCE)
    assert [handle.get(PATIENCE) for handle in handles] == list(range(1, 21))
    deliveries = transport.deliveries
    assert deliveries.by_message > 0
    assert deliveries.by_message + deliveries.directly == 20  # of a busy machine, some are late


def test_what_it_can_do_is_said(transport: AmqpTransport) -> None:
    capabilities = transport.capabilities
    assert not capabilities.durable  # the jobs are in memory
    assert not capabilities.fifo
    assert not capabilities.global_priority
    assert capabilities.limits
    assert any("no publisher confirms" in text for text in capabilities.limitations)


def test_a_clock_of_a_test_rules_delays() -> None:
    clock = FakeClock()
    url = f"kombu+memory://?namespace={new_id()}&state=memory://"
    app = App(Config(), transport=open_transport(url, clock=clock), clock=clock)
    ran = threading.Event()

    @app.task
    def late() -> None:
        ran.set()

    late.submit(eta=60.0)
    Worker(app).run_until_idle(PATIENCE)
    assert not ran.is_set()
    clock.advance(60.0)
    Worker(app).run_until_idle(PATIENCE)
    assert ran.is_set()
    app.close()


def test_closing_ends_the_thread(transport: AmqpTransport) -> None:
    app = App(Config(), transport=transport)
    Worker(app).run_until_idle(PATIENCE)
    before = [thread for thread in threading.enumerate() if thread.name == "taskmq-amqp"]
    assert before
    transport.close()
    wait_for(lambda: not any(thread.is_alive() for thread in before))
