"""docs/reference/stores.md says what every store declares, and how much of the suite applies."""

from __future__ import annotations

import pytest

from taskmq.config import CAPABILITIES
from taskmq.testing.conformance import Case, cases
from taskmq.transport import Capabilities

from . import store_table
from .store_table import PAGE, STORES, VARIANTS, WORDS, declared


@pytest.fixture(scope="module")
def stores() -> dict[str, Capabilities]:
    with declared(STORES) as found, declared({n: url for n, (_, url) in VARIANTS.items()}) as more:
        return {**found, **more}


def test_the_page_says_what_is_declared() -> None:
    hint = "python -m tests.integration.store_table writes it"
    assert PAGE.read_text() == store_table.page(), hint


def test_every_capability_is_in_words() -> None:
    assert set(WORDS) == set(CAPABILITIES)


def test_whoever_cannot_do_something_says_so(stores: dict[str, Capabilities]) -> None:
    for name, can in stores.items():
        lacks = [each for each in CAPABILITIES if not getattr(can, each)]
        assert not lacks or can.limitations, f"{name} lacks {lacks} in silence"
        assert all("\n" not in text for text in can.limitations)


def test_what_is_left_out_is_for_want_of_something(stores: dict[str, Capabilities]) -> None:
    for can in stores.values():
        applying: list[Case] = cases(can)
        assert len(applying) > len(cases()) // 2
        assert all(case.missing(can) for case in cases() if case not in applying)
