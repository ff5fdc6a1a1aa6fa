"""Delivery by brokers that kombu knows, with the jobs in SQLite: the promises that have to do with
delivery. The others are the store's, and are checked with RabbitMQ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests import services

from taskmq.testing.conformance import Case, cases
from taskmq.transports.amqp.broker import Broker
from taskmq.transports.amqp.capabilities import capabilities_of
from taskmq.transports.amqp.options import parse
from taskmq.transports.sqlite import SqliteTransport

CAPABILITIES = capabilities_of(
    Broker(parse("kombu+filesystem://host/?state=sqlite:///jobs.db")), SqliteTransport.capabilities
)
FACETS = ("reserve", "settle", "retry", "lease", "defer", "concurrency")
BY_REDIS = [case for case in cases(CAPABILITIES) if case.facet in FACETS]
BY_FILES = [case for case in BY_REDIS if case.facet in ("reserve", "settle")]


@pytest.mark.parametrize("case", BY_REDIS, ids=str)
def test_kombu_redis(
    case: Case,
    conform: Callable[[Case, str], None],
    redis_server: services.Redis,
    tmp_path: Path,
) -> None:
    # The interval is also how long kombu needs to close a connection.
    options = f"namespace={{case}}&transport.polling_interval=0.05&state=sqlite:///{tmp_path}"
    conform(case, f"kombu+{redis_server.url}?{options}/{{case}}.db")


@pytest.mark.parametrize("case", BY_FILES, ids=str)
def test_kombu_filesystem(case: Case, conform: Callable[[Case, str], None], tmp_path: Path) -> None:
    messages, control = tmp_path / "messages", tmp_path / "control"
    messages.mkdir()
    control.mkdir()
    folders = (
        f"transport.data_folder_in={messages}&transport.data_folder_out={messages}"
        f"&transport.control_folder={control}"
    )
    conform(case, f"kombu+filesystem://host?{folders}&state=sqlite:///{tmp_path}/{{case}}.db")
