"""The memory transport keeps every promise that a store in one process can make."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from taskmq.testing.conformance import Case, cases
from taskmq.transports.memory import MemoryTransport

APPLICABLE = cases(MemoryTransport.capabilities)


@pytest.mark.parametrize("case", APPLICABLE, ids=str)
def test_memory(case: Case, conform: Callable[[Case, str], None]) -> None:
    conform(case, "memory://")


def test_only_processes_and_durability_are_left_out() -> None:
    left_out = [case for case in cases() if case not in APPLICABLE]
    assert {need for case in left_out for need in case.needs} <= {"durable", "shared"} | {
        "dependencies",
        "fair_turns",
        "fifo",
        "limits",
        "wakeups",
        "workflow_pauses",
    }
    assert all({"durable", "shared"} & set(case.needs) for case in left_out)
