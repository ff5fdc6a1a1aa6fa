"""What a store keeps of an exception: always text, always storable."""

from typing import Any, NoReturn

import msgspec
import pytest

from taskmq.failures import MAX_ARGUMENT, MAX_MESSAGE, MAX_TRACEBACK, describe
from taskmq.records import Failure


class Mute(Exception):
    def __str__(self) -> str:
        raise LookupError("no words")

    __repr__ = __str__


def caught(error: BaseException) -> Failure:
    def body() -> NoReturn:
        raise error

    try:
        body()
    except BaseException as raised:
        return describe(raised)


def test_type_message_arguments_and_traceback() -> None:
    failure = caught(ValueError("bad", 42))
    assert failure.type == "builtins.ValueError"
    assert failure.message == "('bad', 42)"
    assert failure.args == ("'bad'", "42")
    assert failure.traceback.endswith("ValueError: ('bad', 42)\n")
    assert "in body" in failure.traceback
    assert "in caught" not in failure.traceback  # who ran it is of no interest


def test_an_own_type_has_its_qualified_name() -> None:
    assert caught(Mute()).type.endswith("test_failures.Mute")


def test_the_cause_is_told() -> None:
    error = ValueError("outer")
    error.__cause__ = KeyError("inner")
    assert "KeyError: 'inner'" in caught(error).traceback


def test_an_exception_that_was_never_raised() -> None:
    assert describe(KeyError("a")).traceback == "KeyError: 'a'\n"


@pytest.mark.parametrize("error", [Mute(), ValueError(Mute())])
def test_an_exception_that_cannot_speak_is_no_trouble(error: Exception) -> None:
    failure = caught(error)
    assert failure.message == "<no text: str() raised LookupError>"
    assert failure.args == ()


@pytest.mark.parametrize("text", ["\udcff in a file name", "x" * 1_000_000, "\udcff" * 100_000])
def test_every_failure_can_be_stored(text: str) -> None:
    failure = caught(ValueError(text))
    stored: Any = msgspec.json.decode(msgspec.json.encode(failure), type=Failure)
    assert stored == failure
    room = 6  # "\udcff", the longest spelling of one character
    assert len(failure.message) <= (MAX_MESSAGE + 3) * room
    assert len(failure.traceback) <= (MAX_TRACEBACK + 3) * room
    assert len(failure.args[0]) <= (MAX_ARGUMENT + 3) * room


def test_a_long_text_keeps_both_ends() -> None:
    message = caught(ValueError("start" + "x" * 100_000 + "end")).message
    assert message.startswith("start")
    assert message.endswith("end")
    assert "\n…\n" in message
