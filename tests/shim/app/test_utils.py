"""``celery.utils``. What is expected was recorded from Celery 5.7."""

from __future__ import annotations

import datetime
import functools
import inspect
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import celery.utils
from celery.utils import functional, imports, text, time
from celery.utils.saferepr import saferepr
from celery.utils.threads import LocalStack

pytestmark = pytest.mark.unit

UTC = datetime.timezone.utc


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        (text.truncate("abcdefghijk", 5), "abcde..."),
        (text.truncate("abc def ghi", 5), "abc..."),
        (text.pluralize(2, "task"), "tasks"),
        (text.pluralize(1, "task"), "task"),
        (text.str_to_list("a, b"), ["a", "b"]),
        (text.abbr("abcdefg", 4), "a..."),
        (text.abbrtask("proj.module.tasks.add", 15), "proj.modu[.]add"),
        (text.abbrtask("tasks.add", 15), "tasks.add"),
        (text.join(["a", "", "b"], "-"), "a-b"),
        (text.indent("x\ny", 2), "  x\n  y"),
        (text.simple_format("%n%%-%h", {"n": "a", "h": lambda: "b"}), "a%-b"),
    ],
)
def test_text(got: Any, expected: Any) -> None:
    assert got == expected


def test_an_unknown_format_says_so() -> None:
    with pytest.raises(ValueError, match="Unknown format %z in string 'x%z'"):
        text.simple_format("x%z", {})


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (3600, "1.00 hour"),
        (90, "1.50 minutes"),
        (0, "now"),
        (1, "1.00 second"),
        (86400 * 3, "3.00 days"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert time.humanize_seconds(seconds) == words


def test_times_and_zones() -> None:
    naive = datetime.datetime(2020, 1, 1)
    berlin = time.timezone.get_timezone("Europe/Berlin")
    assert time.is_naive(naive)
    assert str(time.maybe_make_aware(naive)) == "2020-01-01 00:00:00+00:00"
    assert str(time.maybe_make_aware(naive, tz=berlin)) == "2020-01-01 01:00:00+01:00"
    assert str(time.localize(naive, berlin)) == "2020-01-01 00:00:00+01:00"
    assert time.to_utc(naive.replace(tzinfo=berlin)).hour == 23
    assert time.maybe_iso8601("2020-01-01T00:00:00Z") == naive.replace(tzinfo=UTC)
    assert time.maybe_iso8601(None) is None
    assert time.maybe_timedelta(30) == datetime.timedelta(seconds=30)
    local = time.timezone.to_local(naive.replace(tzinfo=UTC))
    assert local.timestamp() == naive.replace(tzinfo=UTC).timestamp()
    assert time.timezone.local.utcoffset(naive) == naive.astimezone().utcoffset()


@pytest.mark.parametrize(
    ("rate", "per_second"), [("10/m", 10 / 60), ("1/s", 1), ("2/h", 2 / 3600), (5, 5), (None, 0)]
)
def test_rates(rate: Any, per_second: float) -> None:
    assert time.rate(rate) == per_second


def test_moving_forward() -> None:
    start = datetime.datetime(2024, 2, 10, 15, 30)
    assert start + time.ffwd(hour=3, minute=0) == datetime.datetime(2024, 2, 10, 3, 0)
    assert start + time.ffwd(day=31) == datetime.datetime(2024, 2, 29, 15, 30)
    assert start + time.ffwd(weeks=1, weekday=1) == datetime.datetime(2024, 2, 19, 15, 30)
    assert (time.weekday("Sunday"), time.weekday("mon")) == (0, 1)
    with pytest.raises(KeyError):
        time.weekday("someday")
    with pytest.raises(TypeError):
        _ = 3 + time.ffwd(hour=1)


@pytest.mark.parametrize(
    ("value", "options", "expected"),
    [
        ((1, 2), {}, "(1, 2)"),
        ((1,), {}, "(1,)"),
        (set(), {}, "set()"),
        (frozenset([1]), {}, "frozenset({1})"),
        ({"a": [1, {"b": (1, [2])}]}, {}, "{'a': [1, {'b': (...)}]}"),
        ({1: {2: {3: {4: 5}}}}, {}, "{1: {2: {3: {...}}}}"),
        ("x" * 50, {"maxlen": 20}, "'xxxxxxxxxxxxxxxxxxxx...'"),
        (["x" * 50], {"maxlen": 20}, "['xxxxxxxxxxxxxxxxxxx...']"),
        (b"a" * 100, {"maxlen": 5}, "b'aaaaa...'"),
        (list(range(100)), {"maxlen": 12}, "[0, 1, 2, 3, ...]"),
        (None, {"maxlen": 1}, "None"),
    ],
)
def test_safe_texts_are_neither_long_nor_deep(
    value: Any, options: dict[str, Any], expected: str
) -> None:
    assert saferepr(value, **options) == expected


def test_safe_texts_never_fail() -> None:
    class Broken:
        def __repr__(self) -> str:
            raise ValueError("no")

    loop: list[Any] = []
    loop.append(loop)
    assert saferepr(loop) == f"[<Recursion on list with id={id(loop)}>]"
    assert "ValueError('no')" in saferepr([Broken()])


@pytest.mark.parametrize(
    ("function", "args", "message"),
    [
        (lambda x, y=1, *, z: 0, (1,), "missing 1 required keyword-only argument: 'z'"),
        (lambda x, /, y: 0, (1, 2, 3), "takes 2 positional arguments but 3 were given"),
        (lambda x, /: 0, (), "missing 1 required positional argument: 'x'"),
        (lambda *a, **k: 0, (1, 2), None),
    ],
)
def test_heads_check_arguments(
    function: Callable[..., Any], args: tuple[Any, ...], message: str | None
) -> None:
    head = functional.head_from_fun(function)
    assert str(inspect.signature(head)).replace("=None", "=1") == str(inspect.signature(function))
    if message is None:
        head(*args)
    else:
        with pytest.raises(TypeError, match=message):
            head(*args)


def test_a_bound_head_has_its_first_argument() -> None:
    def body(self: Any, x: int) -> None: ...

    class Adder:
        def __call__(self, x: int) -> None: ...

    functional.head_from_fun(body, bound=True)(1)
    functional.head_from_fun(Adder(), bound=True)(1)
    with pytest.raises(TypeError, match=r"body\(\) missing 1 required positional argument: 'x'"):
        functional.head_from_fun(body, bound=True)()


def test_functions_about_functions() -> None:
    assert list(functional.chunks(iter(range(5)), 2)) == [[0, 1], [2, 3], [4]]
    assert functional.padlist([1, 2], 3) == [1, 2, None]
    assert functional.first(lambda x: x > 1, [1, 2, 3]) == 2
    assert list(functional.uniq([1, 2, 1])) == [1, 2]
    assert functional.mattrgetter("real", "nothing")(3) == {"real": 3, "nothing": None}
    assert functional.firstmethod("upper")([3, "a", "b"]) == "A"
    assert functional.maybe(int, None) is None
    assert functional.fun_accepts_kwargs(lambda **k: 0)
    assert not functional.fun_accepts_kwargs(lambda k: 0)


def test_imports_by_name() -> None:
    assert imports.qualname(datetime.datetime) == "datetime.datetime"
    assert imports.qualname(3) == "builtins.int"
    assert imports.instantiate("datetime:date", 2020, 1, 1) == datetime.date(2020, 1, 1)
    assert imports.module_file(text).endswith("celery/utils/text.py")
    assert celery.utils.get_full_cls_name is imports.qualname
    assert celery.utils.gen_unique_id is celery.utils.uuid
    assert len(celery.utils.uuid()) == 36
    with pytest.raises(AttributeError):
        _ = celery.utils.nonsense


def test_a_local_stack_belongs_to_a_thread() -> None:
    stack = LocalStack()
    stack.push(1)
    seen: list[Any] = []
    thread = threading.Thread(target=lambda: seen.append((stack.top, stack.pop())))
    thread.start()
    thread.join(10)
    assert seen == [(None, None)]
    assert (stack.top, len(stack), stack.pop(), len(stack)) == (1, 1, 1, 0)


def test_a_head_is_of_the_wrapper_that_is_called() -> None:
    def inner(x: int, session: Any) -> None: ...

    @functools.wraps(inner)
    def wrapper(*args: Any, **kwargs: Any) -> None: ...

    functional.head_from_fun(wrapper)(1, colour="red")


def test_arguments_that_a_function_takes() -> None:
    def add(x: int, y: int) -> int:
        return x + y

    assert functional.fun_takes_argument("y", add)
    assert not functional.fun_takes_argument("z", add)
    assert functional.fun_takes_argument("z", lambda *_: 0)
    assert functional.fun_takes_argument("x", add, position=2)
    assert not functional.fun_takes_argument("x", add, position=3)


def test_small_functions_about_sequences() -> None:
    assert list(functional.lookahead("abc")) == [("a", "b"), ("b", "c"), ("c", None)]
    assert list(functional.lookahead("")) == []
    assert functional.seq_concat_item((1, 2), 3) == (1, 2, 3)
    assert functional.seq_concat_seq((1,), [2, 3]) == [1, 2, 3]
    assert functional.seq_concat_seq((1, 2), [3, 4]) == (1, 2, 3, 4)
    numbers = iter(range(3))
    once: Any = functional.mlazy(numbers.__next__)  # type: ignore[no-untyped-call]  # kombu's
    assert (once(), once(), repr(once), once.evaluated) == (0, 0, "0", True)
    assert functional.is_numeric_value(1.5)
    assert not functional.is_numeric_value(True)
    with pytest.raises(KeyError), functional.DummyContext():
        raise KeyError


def test_hours_behind_utc_may_be_broken() -> None:
    india = SimpleNamespace(timezone=-19800, altzone=-19800)
    assert time.utcoffset(india, lambda: SimpleNamespace(tm_isdst=0)) == -5.5


def test_a_time_that_the_clock_leaves_out_comes_later() -> None:
    eastern = time.timezone.get_timezone("US/Eastern")
    moved = time.make_aware(datetime.datetime(2024, 3, 10, 2, 30), eastern)
    assert moved.isoformat() == "2024-03-10T03:30:00-04:00"


def test_how_often() -> None:
    assert (time.rate("10/h"), time.rate("2.5/s"), time.rate(None)) == (10 / 60 / 60, 2.5, 0)
