"""The Redis transport keeps every promise there is, on a real server."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests import services

from taskmq.testing.conformance import Case, cases
from taskmq.transports.redis import RedisTransport


@pytest.mark.parametrize("case", cases(RedisTransport.capabilities), ids=str)
def test_redis(
    case: Case, conform: Callable[[Case, str], None], redis_server: services.Redis
) -> None:
    conform(case, f"{redis_server.url}?namespace={{case}}")
