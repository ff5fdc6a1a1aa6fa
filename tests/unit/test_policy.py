"""Task policies are checked when the task is defined."""

from typing import Any

import pytest

from taskmq import ConfigError, Retry
from taskmq.policy import TaskPolicy


def test_defaults_and_a_full_policy() -> None:
    assert TaskPolicy().ack == "on_success"
    TaskPolicy(
        queue="email",
        priority=9,
        retry=Retry(),
        timeout=1,
        ack="on_receipt",
        expires=60,
        max_deliveries=1,
        store_result=False,
        result_ttl=0,
        codec="yaml",
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("queue", ""),
        ("priority", 10),
        ("priority", None),
        ("retry", 3),
        ("retry", "default"),
        ("timeout", 0),
        ("timeout", "30"),
        ("ack", "late"),
        ("ack", None),
        ("expires", -1),
        ("max_deliveries", 0),
        ("max_deliveries", "5"),
        ("store_result", "no"),
        ("result_ttl", -1),
        ("codec", ""),
    ],
)
def test_a_wrong_policy_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^{field}"):
        TaskPolicy(**{field: value})
