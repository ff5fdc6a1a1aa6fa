"""Job ids are ULIDs."""

import itertools
import multiprocessing
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmq import ids
from taskmq.ids import ALPHABET, ULID_LENGTH, new_id, new_ids, timestamp_of


@given(st.integers(min_value=0, max_value=2**48 - 1))
def test_an_id_holds_its_time_to_the_millisecond(milliseconds: int) -> None:
    made = new_id(milliseconds / 1000)
    assert len(made) == ULID_LENGTH
    assert set(made) <= set(ALPHABET)
    assert abs(timestamp_of(made) - milliseconds / 1000) < 0.00101


def test_ids_sort_by_time() -> None:
    assert new_id(1.0) < new_id(1.5) < new_id(1_000.0) < new_id(2_000_000_000.0)


def test_without_a_time_it_is_now() -> None:
    before = time.time()
    assert before - 0.001 <= timestamp_of(new_id()) <= time.time()


def test_ids_of_one_instant_differ() -> None:
    assert len({new_id(1.0) for _ in range(10_000)}) == 10_000


def test_ids_of_one_process_ascend_even_within_a_millisecond() -> None:
    ids = [new_id(1.0) for _ in range(1_000)]
    assert ids == sorted(ids)


@pytest.mark.parametrize("count", [0, 1, 3, 4, 1_000])
@pytest.mark.parametrize("start", [7 << 18, (8 << 18) - 2, (8 << 18) - 500])
def test_ids_of_a_batch_are_like_those_made_one_by_one(
    count: int, start: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ids, "_count", itertools.count(start))
    batch = new_ids(1_500.0, count)
    monkeypatch.setattr(ids, "_count", itertools.count(start))
    single = [new_id(1_500.0) for _ in range(count)]
    assert [each[:19] for each in batch] == [each[:19] for each in single]  # the rest is random
    assert all(len(each) == ULID_LENGTH and set(each) <= set(ALPHABET) for each in batch)
    assert batch == sorted(set(batch))


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # 3.12 warns of it under xdist
def test_a_forked_child_draws_other_ids() -> None:
    context = multiprocessing.get_context("fork")
    parent, child = context.Pipe()
    process = context.Process(target=lambda: child.send(new_id(1.0)))
    process.start()
    other = parent.recv()
    process.join(10)
    assert other != new_id(1.0)


@pytest.mark.parametrize("text", ["", "short", "U" * 26, "0" * 27])
def test_what_is_no_ulid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a ULID"):
        timestamp_of(text)
