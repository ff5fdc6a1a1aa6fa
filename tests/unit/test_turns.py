"""Weighted turns between queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmq.turns import Turns

MANY = 10_000


def _serve(turns: Turns, weights: Mapping[str, int], sizes: list[int]) -> Counter[str]:
    served: Counter[str] = Counter()
    for size in sizes:
        served.update(turns.share(dict.fromkeys(weights, MANY), weights, size))
    return served


def test_one_batch_is_shared_by_weight() -> None:
    weights = {"a": 3, "b": 1}
    assert Turns().share({"a": MANY, "b": MANY}, weights, 8) == {"a": 6, "b": 2}


def test_single_turns_add_up_to_the_weights() -> None:
    assert _serve(Turns(), {"a": 3, "b": 1}, [1] * 40) == {"a": 30, "b": 10}


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.integers(1, 20), min_size=1),
    st.lists(st.integers(1, 30), min_size=1, max_size=30),
)
def test_no_queue_is_a_turn_off_its_share(weights: dict[str, int], sizes: list[int]) -> None:
    served = _serve(Turns(), weights, sizes)
    total = sum(sizes)
    for queue, weight in weights.items():
        share = total * weight / sum(weights.values())
        assert abs(served[queue] - share) <= len(weights)


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 5)),
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9)),
    st.integers(1, 12),
)
def test_takes_what_there_is_up_to_the_limit(
    available: dict[str, int], weights: dict[str, int], limit: int
) -> None:
    taken = Turns().share(available, weights, limit)
    assert sum(taken.values()) == min(limit, sum(available.values()))
    assert all(0 < count <= available[queue] for queue, count in taken.items())


def test_queue_without_a_weight_counts_once() -> None:
    assert Turns().share({"a": 9, "b": 9}, {"a": 2}, 6) == {"a": 4, "b": 2}


def test_unused_turns_go_to_the_others() -> None:
    assert Turns().share({"a": 2, "b": 20}, {"a": 9, "b": 1}, 10) == {"a": 2, "b": 8}


@pytest.mark.parametrize("others", [{"a": MANY}, {"a": MANY, "c": MANY}])
def test_absent_queue_does_not_save_up_turns(others: dict[str, int]) -> None:
    turns = Turns()
    turns.share({"a": 1, "b": 1, "c": 1}, {}, 3)
    for _ in range(100):
        turns.share(others, {}, 1)
    taken = turns.share({**others, "b": MANY}, {}, 12)
    assert max(taken.values()) - min(taken.values()) <= 2


def test_nothing_is_shared_among_none() -> None:
    assert Turns().share({}, {}, 5) == {}
    assert Turns().share({"a": 0}, {"a": 1}, 5) == {}
