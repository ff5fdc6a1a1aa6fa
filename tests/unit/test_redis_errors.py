"""Every error of the driver and of the server stands for one of the port."""

from __future__ import annotations

import inspect

import pytest
import redis.exceptions as driver

from taskmq.errors import StoreCorrupt, StoreFull, TransportError, TransportUnavailable
from taskmq.transports.redis.errors import FAILURES, translate


def kind(error: Exception) -> type[TransportError]:
    return type(translate(error, "Redis at h:1", "shop"))


ELSEWHERE = (driver.ChildDeadlockedError, driver.IncorrectPolicyType)
"""Of parts of the driver that are not used: its blocking pool, its command policies."""


def every_class() -> list[type[Exception]]:
    found = [each for _, each in inspect.getmembers(driver, inspect.isclass)]
    return [each for each in found if issubclass(each, Exception) and each not in ELSEWHERE]


@pytest.mark.parametrize("error", every_class(), ids=lambda each: each.__name__)
def test_map_is_total(error: type[Exception]) -> None:
    assert issubclass(error, FAILURES)
    made = error.__new__(error, "broken")
    Exception.__init__(made, "broken")
    assert issubclass(kind(made), TransportError)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("READONLY You can't write against a read only replica.", TransportUnavailable),
        ("LOADING Redis is loading the dataset in memory", TransportUnavailable),
        ("MASTERDOWN Link with MASTER is down", TransportUnavailable),
        ("CLUSTERDOWN Hash slot not served", TransportUnavailable),
        ("TRYAGAIN Multiple keys request during rehashing of slot", TransportUnavailable),
        ("BUSY Redis is busy running a script.", TransportUnavailable),
        ("MISCONF Redis is configured to save RDB snapshots", TransportUnavailable),
        ("NOREPLICAS Not enough good replicas to write.", TransportUnavailable),
        ("OOM command not allowed when used memory > 'maxmemory'.", StoreFull),
        ("ERR Error running script: @user_script:1: -OOM command not allowed", StoreFull),
        ("WRONGTYPE Operation against a key holding the wrong kind of value", StoreCorrupt),
        ("ERR something new", TransportError),
    ],
)
def test_answers_of_the_server(text: str, expected: type[TransportError]) -> None:
    assert kind(driver.ResponseError(text)) is expected


@pytest.mark.parametrize(
    "error",
    [
        driver.ConnectionError("Connection refused"),
        driver.TimeoutError("Timeout reading"),
        driver.BusyLoadingError("LOADING"),
        ConnectionResetError(104, "reset"),
        TimeoutError(),
    ],
)
def test_trouble_on_the_way_may_be_tried_again(error: Exception) -> None:
    assert kind(error) is TransportUnavailable


def test_what_is_forbidden_is_named_with_what_to_permit() -> None:
    error = driver.NoPermissionError("this user has no permissions to run the 'evalsha' command")
    text = str(translate(error, "Redis at h:1", "shop"))
    assert "evalsha" in text
    assert "~{shop}:*" in text
    assert "+@scripting" in text
