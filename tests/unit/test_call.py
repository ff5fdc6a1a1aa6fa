"""Calls and options: checked when they are made, so that what is stored can be read."""

import datetime
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmq import App, Call, Config, ConfigError
from taskmq.call import Options, instant
from taskmq.envelope import load
from taskmq.errors import EncodeError
from taskmq.tasks import Task

NOW = 1_700_000_000.0
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "queue": st.text(min_size=1),
        "eta": st.floats(),
        "expires": st.timedeltas() | st.floats() | st.integers(),
        "timeout": st.floats() | st.integers(),
        "priority": st.integers(-20, 20),
        "key": st.text(),
        "key_ttl": st.floats(),
        "headers": st.dictionaries(st.text(), st.floats() | st.text() | st.none()),
        "ack": st.sampled_from(["on_success", "on_receipt", "on_completion", "never"]),
        "max_attempts": st.integers(-1, 10),
        "max_deliveries": st.integers(-1, 10),
        "store_result": st.booleans(),
        "result_ttl": st.floats(),
        "id": st.text(),
        "trace": st.dictionaries(st.text(), st.text() | st.integers(), max_size=2),
    },
)


@pytest.fixture(scope="module")
def task() -> Task[..., Any]:
    @App(Config()).task
    def add(x: int, y: int = 0) -> int:
        return x + y

    return add


@given(OPTIONS)
def test_options_are_refused_or_make_an_envelope_that_reads_back(
    task: Task[..., Any], options: dict[str, Any]
) -> None:
    try:
        sealed = task.app.seal(task.call(1).options(**options), NOW)
    except (ConfigError, EncodeError):
        return
    read = load(sealed.data)
    assert read == sealed.envelope
    assert read.ack == options.get("ack", "on_success")
    assert read.priority == options.get("priority", 0)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("queue", ""),
        ("eta", datetime.datetime(2030, 1, 1)),
        ("eta", "tomorrow"),
        ("eta", True),
        ("eta", math.inf),
        ("expires", datetime.datetime(2030, 1, 1)),
        ("expires", math.nan),
        ("timeout", 0),
        ("priority", 10),
        ("key", ""),
        ("key", 42),
        ("key_ttl", 0),
        ("headers", ["a"]),
        ("headers", {1: "a"}),
        ("ack", "always"),
        ("max_attempts", 0),
        ("max_deliveries", 0),
        ("store_result", 1),
        ("result_ttl", -1),
        ("codec", ""),
        ("id", ""),
        ("trace", {"a": 1}),
    ],
)
def test_a_wrong_option_is_refused_by_its_name(
    task: Task[..., Any], option: str, value: Any
) -> None:
    with pytest.raises(ConfigError, match=f"^{option}"):
        task.call(1).options(**{option: value})


def test_an_unknown_option_names_the_nearest(task: Task[..., Any]) -> None:
    with pytest.raises(ConfigError, match="no option 'prioritty'; did you mean 'priority'"):
        task.call(1).options(prioritty=3)


def test_options_add_up_and_leave_the_call_they_came_from(task: Task[..., Any]) -> None:
    first = task.call(1).options(queue="email", priority=2)
    second = first.options(priority=5)
    assert (first.with_.queue, first.with_.priority) == ("email", 2)
    assert (second.with_.queue, second.with_.priority) == ("email", 5)
    assert second.options(queue=None).with_ == Options(priority=5)


def test_instants() -> None:
    assert instant("eta", 5, NOW) == NOW + 5
    assert instant("eta", -5, NOW) == NOW - 5
    assert instant("eta", datetime.timedelta(minutes=1), NOW) == NOW + 60
    east = datetime.timezone(datetime.timedelta(hours=8))
    assert instant("eta", datetime.datetime(2023, 11, 15, 6, 13, 20, tzinfo=east), 0.0) == NOW


def test_a_naive_datetime_is_refused_with_what_to_pass(task: Task[..., Any]) -> None:
    with pytest.raises(ConfigError, match="has no time zone; pass seconds or an aware datetime"):
        task.submit(1, eta=datetime.datetime(2030, 1, 1))


def test_a_call_can_be_made_by_hand(task: Task[..., Any]) -> None:
    assert Call(task, (1,)) == task.call(1)
    with pytest.raises(TypeError, match=r"add\(x: int, y: int = 0\).*missing a required"):
        task.call()
