"""Commands as they are sent, and what the server says on a connection that only listens, in RESP2.

Without the driver, which does more for each of them than they are worth.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from redis.exceptions import ResponseError

__all__ = ["Push", "Pushes", "packed_command"]

Word: TypeAlias = "bytes | int | Push"
Push: TypeAlias = "list[Word]"


def packed_command(command: Sequence[bytes | str]) -> bytes:
    """A command, as it is sent."""
    parts = [b"*%d" % len(command)]
    for word in command:
        data = word.encode() if isinstance(word, str) else word
        parts += (b"\r\n$%d\r\n" % len(data), data)
    parts.append(b"\r\n")
    return b"".join(parts)


class Pushes:
    """Makes of bytes, as they come, the arrays that are complete."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Push]:
        """What is complete now. Words by themselves, as the answer to a PING may be one, are left
        out. Raises ``ResponseError`` for an error."""
        data = self._rest + data
        found: list[Push] = []
        start = 0
        try:
            while start < len(data):
                word, start = _read(data, start)
                if isinstance(word, list):
                    found.append(word)
        except _Incomplete:
            pass
        self._rest = data[start:]
        return found


class _Incomplete(Exception):
    """The rest has not come yet."""


def _read(data: bytes, start: int) -> tuple[Word, int]:
    """What begins there, and where it ends."""
    stop = data.find(b"\r\n", start)
    if stop < 0:
        raise _Incomplete
    kind, word, end = data[start : start + 1], data[start + 1 : stop], stop + 2
    if kind == b"$":
        size = int(word)
        if size < 0:  # nothing: of no channel
            return b"", end
        if len(data) < end + size + 2:
            raise _Incomplete
        return data[end : end + size], end + size + 2
    if kind == b"*":
        items: Push = []
        for _ in range(int(word)):
            item, end = _read(data, end)
            items.append(item)
        return items, end
    if kind == b"-":
        raise ResponseError(word.decode())
    return int(word) if kind == b":" else word, end
