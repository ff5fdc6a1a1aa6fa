"""What the server says on a connection that only listens, in RESP2.

Read without the driver, which asks the socket twice more for each message.
"""

from __future__ import annotations

from typing import TypeAlias

from redis.exceptions import ResponseError

__all__ = ["Push", "Pushes"]

Word: TypeAlias = "bytes | int | Push"
Push: TypeAlias = "list[Word]"


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
