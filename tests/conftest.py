"""What every test of the workspace shares: markers by folder, a clean environment, servers.

A test that needs a server asks for it by the name of its program:

    def test_wakes_up_on_enqueue(require_server):
        program = require_server("redis-server")

or for a running one by the fixtures of tests/servers.py. Where the program is missing the test is
skipped, and the run ends with one line that says so. Under CI such a skip is a failure: there,
everything has to be installed.
"""

import contextlib
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import hypothesis
import pytest
from tests.services import MissingProgram, find_program

pytest_plugins = ["tests.servers"]

HERE = Path(__file__).parent
MARKERS_BY_FOLDER = {
    "conformance": "integration",
    "faults": "faults",
    "integration": "integration",
    "migrate": "integration",
    "property": "unit",
    "unit": "unit",
}
MISSING_SERVER = "missing server: "


def under_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def pytest_configure() -> None:
    """A developer's own settings never decide an outcome; two busy cores break no deadline."""
    for name in [each for each in os.environ if each.startswith(("TASKMQ_", "CELERY_", "PG"))]:
        del os.environ[name]
    hypothesis.settings.register_profile(
        "taskmq", deadline=None, derandomize=under_ci(), print_blob=True
    )
    hypothesis.settings.load_profile("taskmq")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE):
            marker = MARKERS_BY_FOLDER.get(item.path.relative_to(HERE).parts[0])
            if marker is not None:
                item.add_marker(marker)


@pytest.fixture(scope="session")
def require_server() -> Callable[[str], Path]:
    """Gives the path of a server's program; skips the test, or fails it under CI, without it."""

    def require(program: str) -> Path:
        with contextlib.suppress(MissingProgram):
            return find_program(program)
        if under_ci():
            pytest.fail(f"{MISSING_SERVER}{program} has to be installed under CI", pytrace=False)
        pytest.skip(f"{MISSING_SERVER}{program}")

    return require


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for all the tests that were skipped for want of a server."""
    programs: Counter[str] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        _, found, program = reason.partition(MISSING_SERVER)
        if found:
            programs[program] += 1
    if programs:
        names = ", ".join(f"{name} ({count})" for name, count in sorted(programs.items()))
        tests = "1 test" if sum(programs.values()) == 1 else f"{sum(programs.values())} tests"
        line = f"{tests} skipped because a server is not installed: {names}"
        terminalreporter.write_line(line, yellow=True)
