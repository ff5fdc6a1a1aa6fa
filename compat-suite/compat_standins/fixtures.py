"""The fixtures that differ without Docker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from .client import Client
from .guest import processes

# Tasks of the suite leave it in /tmp, which a container has for itself: it tells a second run
# that the first one has been.
LEFT_BEHIND = Path("/tmp/kill_child_process_once")  # noqa: S108


@pytest.fixture(scope="session")
def docker_client(pytestconfig: pytest.Config) -> Iterator[Client]:
    """In place of that of pytest-docker-tools."""
    client = Client(
        released=pytestconfig.getoption("released_celery"),
        cache=pytestconfig.getoption("standins_cache"),
    )
    yield client
    client.close()


@pytest.fixture
def default_worker_utils_module() -> ModuleType:
    """In place of that of pytest-celery, which would list the processes of the whole machine."""
    LEFT_BEHIND.unlink(missing_ok=True)
    return processes
