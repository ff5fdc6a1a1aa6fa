"""A suite that behaves badly on purpose; the tests beside it take it through the runner."""

import os
import signal
import threading
from pathlib import Path

import pytest


def test_passes() -> None:
    assert True


def test_fails() -> None:
    raise ValueError("seeded failure")


def test_is_expected_to_fail() -> None:
    raise ValueError("known")


def test_passes_unexpectedly() -> None:
    assert True


def test_hangs() -> None:
    threading.Event().wait()


def test_crashes() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_is_flaky() -> None:
    """Passes in the second process that runs it."""
    seen = Path("seen")
    before = seen.exists()
    seen.touch()
    assert before


@pytest.fixture
def broken() -> None:
    raise LookupError("no fixture")


@pytest.mark.usefixtures("broken")
def test_has_no_fixture() -> None:
    pass


@pytest.mark.skip(reason="not here")
def test_is_skipped() -> None:
    pass


@pytest.mark.parametrize("name", ["a", "b[c]"])
def test_has_parameters(name: str) -> None:
    assert name


def test_comes_last() -> None:
    assert True
