"""The SQLite transport keeps every promise there is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from taskmq.testing.conformance import Case, cases


@pytest.mark.parametrize("case", cases(), ids=str)
def test_sqlite(case: Case, conform: Callable[[Case, str], None], tmp_path: Path) -> None:
    conform(case, f"sqlite:///{tmp_path}/{{case}}.db")
