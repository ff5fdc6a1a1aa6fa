"""What a sweep sees of a payload."""

from __future__ import annotations

import msgspec

__all__ = ["StoredPayload"]


class StoredPayload(msgspec.Struct, frozen=True):
    """``at`` is when it was last written, in epoch seconds; ``None`` if the store cannot say, and
    then it is never swept."""

    name: str
    size: int
    at: float | None
