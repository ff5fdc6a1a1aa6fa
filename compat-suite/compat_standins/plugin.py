"""The pytest plugin that the suite `smoke` is run with: ``-p compat_standins.plugin``."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from compat.places import CACHE
from pytest_docker_tools.wrappers import container  # type: ignore[import-not-found]

from . import fixtures

RELEASED = "TASKMQ_COMPAT_RELEASED"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("compat-standins", "containers without Docker")
    group.addoption(
        "--released-celery",
        metavar="PYTHON",
        type=Path,
        default=os.environ.get(RELEASED),
        help="Python of an environment with the latest Celery released, by default that of "
        f"${RELEASED}, or this one if its Celery is the real one",
    )
    group.addoption(
        "--standins-cache",
        metavar="FOLDER",
        type=Path,
        default=CACHE / "standins",
        help="where environments with older versions of Celery are kept",
    )


def pytest_configure(config: pytest.Config) -> None:
    # Of two plugins that name the same fixture the later wins: this one comes after those that
    # pytest finds by entry points.
    config.pluginmanager.register(fixtures, "compat-standins-fixtures")
    # Where the suite itself runs in a container, pytest-docker-tools would look for others on its
    # network; these are on this machine.
    container.tests_inside_container = _tests_inside_container


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In the same order in every process: pytest-celery makes parameters of sets of strings."""
    items.sort(key=lambda item: item.nodeid)


def _tests_inside_container() -> bool:
    return False
