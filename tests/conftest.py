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
import signal
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path

import hypothesis
import pytest
from tests.dealing import dealt
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
LONG = ("test_promises.py", "test_simulation.py")
"""Modules of long tests that share nothing with each other."""
MISSING_SERVER = "missing server: "
# Coverage is of the engine, and its own tests have to reach it: tracing would cost those of the
# shim, of the codemod and of the tools half of their time.
UNTRACED = ("compat", "differential", "migrate", "shim", "typing")
# The folders whose processes are traced as well: what they run is seen nowhere else. The simulation
# is seen in one that a property test starts.
TRACED_PROCESSES = ("integration", "property", "unit")
COVERAGE_OF_PROCESSES = ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG")


def under_ci() -> bool:
    return os.environ.get("CI", "").lower() not in ("", "0", "false")


def pytest_configure() -> None:
    """A developer's own settings never decide an outcome; two busy cores break no deadline."""
    for name in [each for each in os.environ if each.startswith(("TASKMQ_", "CELERY_", "PG"))]:
        del os.environ[name]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Of a shell's background job. Whoever is started here would ignore it as well.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.register_profile(
        "taskmq", deadline=None, derandomize=under_ci(), print_blob=True
    )
    hypothesis.settings.load_profile("taskmq")


@pytest.hookimpl(trylast=True)  # pytest itself brings tests of the same servers together first
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    processes = getattr(config, "workerinput", {}).get("workercount", 1)
    if processes > 1:
        items[:] = dealt(items, processes, long_ones)
    for item in items:
        folder = folder_of(item)
        if (marker := MARKERS_BY_FOLDER.get(folder)) is not None:
            item.add_marker(marker)
        if folder in UNTRACED:
            item.add_marker("no_cover")


def long_ones(item: pytest.Item) -> str | None:
    """For `dealt`: those of ``faults``, by module, and what takes seconds wherever it is."""
    if item.path.name in LONG:
        return item.nodeid
    return item.path.name if folder_of(item) == "faults" else None


def folder_of(item: pytest.Item) -> str:
    """Of the tests; empty for a test from elsewhere."""
    return item.path.relative_to(HERE).parts[0] if item.path.is_relative_to(HERE) else ""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Coverage of processes: around the fixtures too, which start them for all of a module."""
    folder = folder_of(item)
    marked = folder != "property" and item.get_closest_marker("no_cover")
    traced = folder in TRACED_PROCESSES and not marked
    with pytest.MonkeyPatch.context() as patch:
        if not traced:
            for name in COVERAGE_OF_PROCESSES:
                patch.delenv(name, raising=False)
        return (yield)


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
