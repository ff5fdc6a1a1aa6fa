"""Adaptive credit: the arithmetic, and what must hold for any durations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmq.hooks import MOST_HELD
from taskmq.worker.credit import GATHER, GATHER_ALL, HORIZON, Credit


def credit(slots: int = 8, prefetch: int | None = None, took: float | None = None) -> Credit:
    made = Credit(slots, prefetch)
    if took is not None:
        made.observe(1, took)
    return made


def test_the_first_reservation_is_one_per_slot() -> None:
    assert credit(slots=8).target() == 8


@pytest.mark.parametrize("took", [HORIZON * 1.01, 1.0, 3600.0])
def test_long_jobs_get_one_per_slot(took: float) -> None:
    assert credit(slots=8, took=took).target() == 8


def test_short_jobs_get_what_the_slots_finish_within_the_horizon() -> None:
    assert credit(slots=4, took=0.005).target() == 4 + 4 * 4


@pytest.mark.parametrize("took", [0.0, 1e-9, 20e-6])
def test_shortest_jobs_get_the_ceiling(took: float) -> None:
    assert credit(slots=8, took=took).target() == MOST_HELD


def test_prefetch_is_an_absolute_ceiling() -> None:
    assert credit(slots=8, prefetch=10, took=0.0).target() == 10
    assert credit(slots=8, prefetch=3).target() == 3


def test_more_slots_than_the_ceiling_all_get_a_job() -> None:
    assert credit(slots=300).target() == 300


def test_a_stuck_slot_earns_no_credit() -> None:
    assert credit(slots=4, took=0.005).target(stuck=3) == 4 + 4
    assert credit(slots=4, took=0.005).target(stuck=4) == 4


def test_the_average_follows_what_jobs_take_now() -> None:
    one = credit(took=10.0)
    one.observe(400, 400 * 0.0001)
    assert one.target() == MOST_HELD
    one.observe(1, 10.0)
    assert one.target() > 2 * one.slots  # one long job is no reason to hold no short ones
    one.observe(20, 20 * 10.0)
    assert one.target() == one.slots


def test_jobs_behind_long_ones_are_surplus() -> None:
    one = credit(slots=1, took=0.0)
    assert one.surplus(held=4, unstarted=3, stuck=1) == 3
    assert one.surplus(held=4, unstarted=3, stuck=0) == 0


def test_a_small_error_of_the_average_sends_nothing_back() -> None:
    one = credit(slots=8, took=0.004)
    held = one.target()
    one.observe(1, 0.02)
    assert one.target() < held
    assert one.surplus(held, held - 8, stuck=0) == 0


def test_a_lone_outcome_is_never_waited_with() -> None:
    assert credit(took=0.0).batch(1) == (1, 0.0)
    assert credit(took=None).batch(100) == (1, 0.0)
    assert credit(took=1.0).batch(100) == (1, 0.0)
    assert credit(took=10e-6).batch(3, stuck=2) == (1, 0.0)


def test_nearly_all_short_ones_are_settled_together() -> None:
    assert credit(slots=8, took=40e-6).batch(MOST_HELD) == (MOST_HELD - 7, GATHER_ALL)
    assert credit(slots=8, took=40e-6).batch(MOST_HELD, stuck=6) == (MOST_HELD - 13, GATHER_ALL)
    assert credit(slots=500, took=10e-6).batch(100)[0] == 75


def test_of_a_few_short_ones_none_waits_longer_than_the_others_need() -> None:
    enough, seconds = credit(took=10e-6).batch(4)
    assert enough == 3
    assert seconds < GATHER / 5


def test_longer_ones_run_on_while_others_are_settled() -> None:
    assert credit(slots=8, took=200e-6).batch(100) == (75, GATHER)


def test_whatever_runs_in_other_processes_runs_on() -> None:
    children = Credit(8, None, beside=True)
    children.observe(1, 10e-6)
    assert children.batch(100) == (75, GATHER)


durations = st.floats(0, 1e5, allow_nan=False)


@given(
    slots=st.integers(1, 500),
    prefetch=st.none() | st.integers(1, 1000),
    history=st.lists(st.tuples(st.integers(1, 200), durations), max_size=20),
    share=st.floats(0, 1),
)
def test_bounds_hold_whatever_happened(
    slots: int, prefetch: int | None, history: list[tuple[int, float]], share: float
) -> None:
    one = Credit(slots, prefetch)
    for count, mean in history:
        one.observe(count, count * mean)
    stuck = int(share * slots)
    ceiling = prefetch or max(slots, MOST_HELD)
    assert min(slots, ceiling) <= one.target(stuck) <= ceiling
    assert one.target(slots) == min(slots, ceiling)
    assert one.target(stuck) <= one.target(0)


@given(
    slots=st.integers(1, 64),
    took=durations,
    unstarted=st.integers(0, 500),
    running=st.integers(0, 64),
    stuck=st.integers(0, 64),
)
def test_what_is_given_back_is_not_wanted_again(
    slots: int, took: float, unstarted: int, running: int, stuck: int
) -> None:
    one = credit(slots, took=took)
    stuck, held = min(stuck, slots), running + unstarted
    surplus = one.surplus(held, unstarted, stuck)
    assert 0 <= surplus <= unstarted
    if surplus:
        assert held - surplus >= min(one.target(stuck), held)
