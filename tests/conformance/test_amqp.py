"""Delivery by RabbitMQ, with the jobs in SQLite, keeps every promise but those about order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests import services
from tests.servers import fresh_name

from taskmq.testing.conformance import Case, cases
from taskmq.transports.amqp.broker import Broker
from taskmq.transports.amqp.capabilities import capabilities_of
from taskmq.transports.amqp.options import parse
from taskmq.transports.sqlite import SqliteTransport

ORDER = {"fifo", "global_priority", "weighted_turns", "fair_turns"}
CAPABILITIES = capabilities_of(
    Broker(parse("amqp://host/?state=sqlite:///jobs.db")), SqliteTransport.capabilities
)


@pytest.fixture(scope="module")
def vhost_url(rabbitmq_server: services.RabbitMQ) -> Iterator[str]:
    """One virtual host for all cases, each with a namespace of its own, which goes by itself."""
    name = fresh_name()  # the server is that of other processes too
    yield rabbitmq_server.create_vhost(name)
    rabbitmq_server.delete_vhost(name)


@pytest.mark.parametrize("case", cases(CAPABILITIES), ids=str)
def test_rabbitmq_and_sqlite(
    case: Case, conform: Callable[[Case, str], None], vhost_url: str, tmp_path: Path
) -> None:
    state = f"sqlite:///{tmp_path}/{{case}}.db"
    conform(case, f"{vhost_url}?namespace={{case}}&queue_expires=20&state={state}")


def test_only_promises_about_order_are_left_out() -> None:
    applicable = cases(CAPABILITIES)
    assert all(ORDER & set(case.needs) for case in cases() if case not in applicable)
