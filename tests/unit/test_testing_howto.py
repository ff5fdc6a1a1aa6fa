"""The page about testing keeps its word: its blocks run, and so do the tests in them."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "testing-your-tasks.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def run(block: str) -> int:
    """Execute a block, then the tests that it defines; those that need fixtures are left out."""
    names: dict[str, Any] = {"__name__": "page"}
    exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102  # it is our own page
    tests = [value for name, value in names.items() if name.startswith("test_")]
    runnable = [test for test in tests if not inspect.signature(test).parameters]
    for test in runnable:
        test()
    return len(runnable)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: re.findall(r"def (\w+)", block)[-1])
def test_a_block_runs(block: str) -> None:
    run(block)


def test_the_page_has_tests_to_run() -> None:
    assert sum(map(run, BLOCKS)) >= 10
