"""Retry policies: a pure function of the attempt and the error."""

from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmq import ConfigError, Retry

Backoff = Literal["fixed", "linear", "exp"]
SECONDS = st.floats(min_value=0, max_value=1e12)


def test_delays_of_the_three_backoffs() -> None:
    def delays(backoff: Backoff) -> list[float | None]:
        policy = Retry(max_attempts=5, backoff=backoff, base=2, factor=3, jitter=False)
        return [policy.delay_after(attempt, OSError()) for attempt in range(1, 6)]

    assert delays("fixed") == [2, 2, 2, 2, None]
    assert delays("linear") == [2, 4, 6, 8, None]
    assert delays("exp") == [2, 6, 18, 54, None]


def test_a_delay_is_capped_also_where_the_power_overflows() -> None:
    policy = Retry(max_attempts=10**6, factor=10.0, max_delay=60, jitter=False)
    assert policy.delay_after(5, OSError()) == 60
    assert policy.delay_after(10_000, OSError()) == 60


def test_jitter_spreads_from_half_to_one_and_a_half() -> None:
    policy = Retry(base=10, backoff="fixed")
    assert policy.delay_after(1, OSError(), lambda: 0.0) == 5
    assert policy.delay_after(1, OSError(), lambda: 1.0) == 15


@given(
    backoff=st.sampled_from(["fixed", "linear", "exp"]),
    base=SECONDS,
    factor=st.floats(min_value=0, max_value=1e6),
    max_delay=SECONDS,
    attempt=st.integers(min_value=1, max_value=10**9),
)
def test_no_policy_gives_a_delay_out_of_range(
    backoff: Backoff, base: float, factor: float, max_delay: float, attempt: int
) -> None:
    policy = Retry(
        max_attempts=10**10, backoff=backoff, base=base, factor=factor, max_delay=max_delay
    )
    delay = policy.delay_after(attempt, None)
    assert delay is not None
    assert 0 <= delay <= max_delay * 1.5


def test_only_the_whitelist_is_retried_and_give_up_on_takes_out_again() -> None:
    policy = Retry(retry_on=(OSError,), give_up_on=(FileNotFoundError,))
    assert policy.delay_after(1, ConnectionError()) is not None
    assert policy.delay_after(1, FileNotFoundError()) is None
    assert policy.delay_after(1, ValueError()) is None
    assert policy.delay_after(1, None) is not None  # the task asked for it


def test_an_interrupt_is_not_retried_by_default() -> None:
    assert not Retry().covers(KeyboardInterrupt())
    assert not Retry().covers(SystemExit())


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_attempts", 0),
        ("max_attempts", 2.5),
        ("backoff", "expo"),
        ("base", -1),
        ("base", float("nan")),
        ("factor", float("inf")),
        ("max_delay", "60"),
        ("jitter", "yes"),
        ("retry_on", ValueError),
        ("retry_on", [ValueError]),
        ("retry_on", ("ValueError",)),
        ("give_up_on", (ValueError(),)),
    ],
)
def test_a_wrong_policy_is_refused(field: str, value: Any) -> None:
    with pytest.raises(ConfigError, match=f"^Retry.{field}"):
        Retry(**{field: value})
