"""Each check names what is wrong and what would be right, in one line."""

import math
from typing import Any

import pytest

from taskmq import checks
from taskmq.checks import Check
from taskmq.errors import ConfigError

GOOD: list[tuple[Check, list[Any]]] = [
    (checks.positive, [1, 0.001, 10**9]),
    (checks.not_negative, [0, 0.0, 5]),
    (checks.count, [1, 10**6]),
    (checks.priority, [-9, 0, 9]),
    (checks.boolean, [True, False]),
    (checks.name_of, ["email", "a b"]),
    (checks.text, [" ", "order 42 "]),
    (checks.text_map, [{}, {"a": "b"}]),
    (checks.one_of("solo", "threads"), ["solo", "threads"]),
    (checks.optional(checks.count), [None, 3]),
]
BAD: list[tuple[Check, list[Any], str]] = [
    (checks.positive, [0, -1, "5", None, True, math.nan, math.inf], "lease must be"),
    (checks.not_negative, [-0.1, "0", None, False, math.inf], "lease must be"),
    (checks.count, [0, -1, 1.0, "1", None, True], "lease must be a whole number"),
    (checks.priority, [-10, 10, 1.5, "3", True, None], "lease must be"),
    (checks.boolean, [0, 1, "true", None], "lease must be True or False"),
    (checks.name_of, ["", " x", "x\n", None, 5, b"x"], "lease must be a name"),
    (checks.text, ["", None, 5, b"x"], "lease must be a non-empty str"),
    (checks.text_map, [None, [], {"a": 1}, {1: "a"}], "lease must be a dict of str to str"),
    (checks.one_of("solo", "threads"), ["thread", None], "lease must be one of solo, threads"),
    (checks.optional(checks.count), [0, "x"], "lease must be a whole number"),
]


@pytest.mark.parametrize(("check", "value"), [(c, v) for c, values in GOOD for v in values])
def test_passes(check: Check, value: object) -> None:
    check("lease", value)


@pytest.mark.parametrize(
    ("check", "value", "start"), [(c, v, text) for c, values, text in BAD for v in values]
)
def test_refuses_in_one_line(check: Check, value: object, start: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check("lease", value)
    assert str(caught.value).startswith(start)
    assert "\n" not in str(caught.value).replace(repr(value), "")


def test_one_of_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'threads'"):
        checks.one_of("solo", "threads")("pool", "thread")


def test_nearest_stays_silent_without_a_likely_one() -> None:
    assert checks.nearest("zzz", ["concurrency"]) == ""
    assert checks.nearest("concurency", ["lease", "concurrency"]) == (
        "; did you mean 'concurrency'?"
    )
