"""The order of the tests themselves, where several processes share them."""

from tests.dealing import dealt


def module_of(name: str) -> str | None:
    return name[0] if name[0].isupper() else None


def test_every_part_begins_with_as_many_long_ones() -> None:
    items = ["a1", "A1", "A2", "b1", "B1", "c1", "c2", "C1", "d1", "d2", "d3", "d4"]
    assert dealt(items, 3, module_of) == [
        *("A1", "A2", "a1", "b1"),
        *("B1", "c1", "c2", "d1"),
        *("C1", "d2", "d3", "d4"),
    ]


def test_nothing_is_lost_or_taken_apart_when_the_parts_differ() -> None:
    items = ["A1", "A2", "A3", "A4", "a1", "B1", "a2"]
    order = dealt(items, 3, module_of)
    assert sorted(order) == sorted(items)
    at = order.index("A1")
    assert order[at : at + 4] == ["A1", "A2", "A3", "A4"]


def test_one_process_has_the_long_ones_first() -> None:
    assert dealt(["a", "B", "c"], 1, module_of) == ["B", "a", "c"]
    assert dealt([], 2, module_of) == []
