"""Runs cases of the conformance suite as tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskmq.testing.conformance import Case, Status, run_case

Conform = Callable[[Case, str], None]


@pytest.fixture
def conform() -> Conform:
    """Check one case against a target; what the transport's capabilities rule out is skipped."""

    def check(case: Case, target: str) -> None:
        outcome = run_case(case, target)
        if outcome.error is not None:
            raise outcome.error
        if outcome.status is Status.SKIPPED:
            pytest.skip(outcome.detail)

    return check
