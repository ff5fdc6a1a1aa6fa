"""Arguments and results become what annotations ask for, and stay what they are elsewhere."""

import dataclasses
import datetime
import decimal
import enum
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple, NewType

import msgspec
import pytest

from taskmq.codec import CodecRegistry
from taskmq.conversion import argument_converter, convert, needs_conversion, result_type
from taskmq.errors import DecodeError

UTC = datetime.timezone.utc
DAY = datetime.date(2030, 1, 2)
OrderId = NewType("OrderId", uuid.UUID)


class Color(enum.Enum):
    RED = "red"


class Pair(NamedTuple):
    left: int
    right: str


class Row(msgspec.Struct):
    day: datetime.date


@dataclasses.dataclass
class Order:
    id: int
    lines: list[Row] = dataclasses.field(default_factory=list)


class Strange:
    """A type that msgspec does not know."""


class Stranger:
    """Another one."""


def sent(value: Any) -> Any:
    """What arrives at the other end of the wire."""
    codecs = CodecRegistry()
    return codecs.decode(codecs.encode(value))


def converter(function: Callable[..., Any], *, bound: bool = False) -> Callable[..., Any]:
    made = argument_converter(function, bound=bound)
    assert made is not None
    return made


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (datetime.datetime, datetime.datetime(2030, 1, 2, 3, tzinfo=UTC)),
        (datetime.date, DAY),
        (datetime.time, datetime.time(1, 2)),
        (datetime.timedelta, datetime.timedelta(days=2, microseconds=5)),
        (uuid.UUID, uuid.UUID(int=7)),
        (OrderId, OrderId(uuid.UUID(int=7))),
        (decimal.Decimal, decimal.Decimal("0.10")),
        (bytes, b"\x00\xff"),
        (set[int], {1, 2}),
        (frozenset[datetime.date], frozenset({DAY})),
        (tuple[int, str], (1, "a")),
        (tuple[int, ...], (1, 2, 3)),
        (dict[int, str], {1: "a"}),
        (dict[str, datetime.date], {"a": DAY}),
        (list[dict[str, set[int]]], [{"a": {1}}]),
        (Color, Color.RED),
        (Pair, Pair(1, "a")),
        (Row, Row(DAY)),
        (Order, Order(1, [Row(DAY)])),
        (datetime.date | None, None),
        (datetime.date | None, DAY),
    ],
)
def test_a_value_comes_back_as_its_annotation_says(hint: Any, value: Any) -> None:
    assert needs_conversion(hint)
    result = convert(sent(value), hint)
    assert result == value
    assert type(result) is type(value)


@pytest.mark.parametrize(
    "hint", [int, str, float, bool, list, dict, dict[str, int], Any, str | None]
)
def test_what_json_keeps_is_left_alone(hint: Any) -> None:
    assert not needs_conversion(hint)


def test_a_function_without_such_annotations_has_no_converter() -> None:
    def plain(a: int, b, *rest: str, **more: float) -> datetime.date: ...  # type: ignore[no-untyped-def, empty-body]  # not annotated on purpose

    assert argument_converter(plain) is None


def test_annotations_that_only_a_checker_can_resolve_convert_nothing() -> None:
    def later(day: "datetime.date", other: "NotDefinedAnywhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821  # on purpose

    assert argument_converter(later) is None
    assert result_type(later) is None


def test_arguments_by_position_and_by_name() -> None:
    def task(day: datetime.date, count: int, *, tags: set[str]) -> None: ...

    assert converter(task)(["2030-01-02", 1], {"tags": ["a"]}) == ([DAY, 1], {"tags": {"a"}})
    assert converter(task)([], {"day": "2030-01-02"}) == ([], {"day": DAY})


def test_the_rest_of_the_arguments() -> None:
    def task(day: datetime.date, *days: datetime.date, **more: set[int]) -> None: ...

    args, kwargs = converter(task)(["2030-01-02"] * 3, {"days": [1], "more": [2, 2]})
    assert args == [DAY] * 3
    assert kwargs == {"days": {1}, "more": {2}}


def test_the_parameter_that_is_filled_in_already_is_not_counted() -> None:
    def task(self: Any, day: datetime.date) -> None: ...

    assert converter(task, bound=True)(["2030-01-02"], {}) == ([DAY], {})


def test_a_default_of_none_allows_none() -> None:
    def task(day: datetime.date = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013  # as many write it

    assert converter(task)([None], {}) == ([None], {})
    assert converter(task)([], {"day": "2030-01-02"}) == ([], {"day": DAY})


def test_a_hint_that_msgspec_cannot_follow_converts_nothing() -> None:
    def task(day: datetime.date, odd: set[int] | Strange | Stranger) -> None: ...

    assert converter(task)(["2030-01-02", [1, 1]], {}) == ([DAY, [1, 1]], {})


def test_an_instance_that_a_registered_codec_made_is_kept() -> None:
    strange = Strange()
    assert convert([[strange, "2030-01-02"]], list[tuple[Strange, datetime.date]]) == [
        (strange, DAY)
    ]
    with pytest.raises(DecodeError):
        convert(["text", "2030-01-02"], tuple[Strange, datetime.date])


@dataclasses.dataclass
class Picky:
    value: int

    def __post_init__(self) -> None:
        raise RuntimeError("none is good enough")


@pytest.mark.parametrize(
    ("value", "hint"),
    [
        ("no date", datetime.date),
        (5, datetime.date),
        (None, datetime.date),
        (["a"], set[int]),
        ({"id": "x"}, Order),
        ({}, Order),
        ({"value": 1}, Picky),
        ("blue", Color),
    ],
)
def test_what_does_not_fit_is_a_decode_error(value: Any, hint: Any) -> None:
    with pytest.raises(DecodeError):
        convert(value, hint)


def test_result_types() -> None:
    def dated() -> datetime.date: ...  # type: ignore[empty-body]  # only its annotation counts

    def plain() -> int: ...  # type: ignore[empty-body]  # only its annotation counts

    def silent() -> None: ...

    assert result_type(dated) is datetime.date
    assert result_type(plain) is None
    assert result_type(silent) is None
