"""Rates as people write them, and the arithmetic of a rate."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmq.envelope import load
from taskmq.errors import ConfigError, MalformedEnvelope
from taskmq.limits import Limit, Rate, check_template, following, opens_at, render, room


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("10/s", Rate(10, 1.0)),
        ("100/m", Rate(100, 60.0)),
        (" 5 / h ", Rate(5, 3600.0)),
        ("1000/d", Rate(1000, 86_400.0)),
    ],
)
def test_a_rate_is_read(text: str, rate: Rate) -> None:
    assert Rate.parse(text) == rate


@pytest.mark.parametrize("text", ["", "10", "10/", "/s", "0/s", "-1/s", "1.5/s", "10/w", "10/s/m"])
def test_what_is_no_rate_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match="rate_limit must be like '10/s'"):
        Rate.parse(text, "rate_limit")


@pytest.mark.parametrize("values", [(0,), (True,), (1, 0.0), (1, -1.0), (1, 1.0, 0)])
def test_a_rate_that_cannot_be_is_refused(values: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match=r"^Rate\."):
        Rate(*values)


def test_without_a_burst_as_many_come_at_once_as_in_a_tenth_of_a_second() -> None:
    assert Rate.parse("100/m").limit("k").burst == 1
    assert Rate.parse("1000/s").limit("k").burst == 100
    assert Rate(1000, burst=1).limit("k").burst == 1


LIMITS = st.builds(
    Limit,
    kind=st.just("rate"),
    key=st.just("k"),
    amount=st.integers(1, 50),
    per=st.sampled_from([0.1, 1.0, 7.0, 60.0]),
    burst=st.integers(1, 20),
)


@given(limit=LIMITS, steps=st.lists(st.tuples(st.floats(0, 20), st.integers(0, 30)), max_size=40))
def test_no_window_has_more_than_the_burst_and_the_rate(
    limit: Limit, steps: list[tuple[float, int]]
) -> None:
    now, until = 1_800_000_000.0, 0.0
    passed: list[float] = []
    for pause, wanted in steps:
        now += pause
        free = min(wanted, room(limit, until, now))
        for _ in range(free):
            until = following(limit, until, now)
            passed.append(now)
    for first, start in enumerate(passed):
        for last, end in enumerate(passed[first:], first):
            allowed = limit.burst + (end - start) / limit.interval
            assert last - first + 1 <= allowed + 1e-3


@given(limit=LIMITS, now=st.floats(1.7e9, 1.9e9))
def test_the_gate_opens_when_it_says(limit: Limit, now: float) -> None:
    until = 0.0
    while room(limit, until, now):
        until = following(limit, until, now)
    at = opens_at(limit, until)
    assert at > now
    assert room(limit, until, at) >= 1


def test_an_envelope_with_a_limit_that_cannot_be_is_malformed() -> None:
    for limit in ({"kind": "rate", "key": "k"}, {"kind": "concurrency", "key": "k", "amount": 0}):
        data = {"v": 1, "id": "a", "task": "t", "queue": "q", "limits": [limit]}
        with pytest.raises(MalformedEnvelope):
            load(msgspec.json.encode(data))


def test_a_template_names_arguments() -> None:
    for good in ("user:{user_id}", "all", "{a}{b!r}{c:>5}{d.e[f]}"):
        check_template("key", good)
    for bad in ("", "{}", "{0}", "{user", "user}", "{a b}", 3, None):
        with pytest.raises(ConfigError, match=r"^key must be text with arguments by name"):
            check_template("key", bad)


def test_a_template_that_does_not_fit_says_why() -> None:
    assert render("key", "u:{x}", {"x": 7}) == "u:7"
    with pytest.raises(ConfigError, match=r"key='u:\{y\}' does not fit the arguments: KeyError"):
        render("key", "u:{y}", {"x": 7})
    for length in (0, 501):
        with pytest.raises(ConfigError, match=f"gives a key of {length} characters"):
            render("key", "{x}", {"x": "u" * length})
