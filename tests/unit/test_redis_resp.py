"""What a connection that only listens is sent, however it is cut."""

from __future__ import annotations

import pytest
from redis.exceptions import ResponseError

from taskmq.transports.redis.resp import Pushes

MESSAGE = b"*3\r\n$7\r\nmessage\r\n$5\r\na\r\nbc\r\n$0\r\n\r\n"
CONFIRMED = b"*3\r\n$9\r\nsubscribe\r\n$1\r\nq\r\n:1\r\n"
GONE = b"*3\r\n$11\r\nunsubscribe\r\n$-1\r\n:0\r\n"
PONG = b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"
STREAM = MESSAGE + CONFIRMED + b"+PONG\r\n" + GONE + PONG
PUSHES = [
    [b"message", b"a\r\nbc", b""],
    [b"subscribe", b"q", 1],
    [b"unsubscribe", b"", 0],
    [b"pong", b""],
]


def test_all_at_once() -> None:
    assert Pushes().feed(STREAM) == PUSHES


@pytest.mark.parametrize("size", [1, 2, 3, 7, 31])
def test_in_pieces(size: int) -> None:
    pushes = Pushes()
    found = [
        push
        for start in range(0, len(STREAM), size)
        for push in pushes.feed(STREAM[start : start + size])
    ]
    assert found == PUSHES


def test_a_refusal_is_raised() -> None:
    with pytest.raises(ResponseError, match=r"^NOPERM this user has no permissions"):
        Pushes().feed(b"-NOPERM this user has no permissions to access one of the channels\r\n")
