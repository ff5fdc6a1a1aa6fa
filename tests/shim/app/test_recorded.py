"""The same program on Celery 5.7 and on the shim: every result, hook and signal is the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.integration

RECORDED = Path(__file__).parent / "recorded"


@pytest.fixture(scope="module")
def printed() -> Any:
    program = [sys.executable, str(RECORDED / "program.py")]
    run = subprocess.run(program, capture_output=True, text=True, timeout=50, check=True)
    return json.loads(run.stdout)


@pytest.fixture(scope="module")
def expected() -> Any:
    return json.loads((RECORDED / "celery-5.7.0.json").read_text())


def test_results_are_celerys(printed: Any, expected: Any) -> None:
    assert printed["results"] == expected["results"]


def test_hooks_and_signals_come_as_in_celery(printed: Any, expected: Any) -> None:
    assert printed["log"] == expected["log"]
