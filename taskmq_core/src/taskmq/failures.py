"""Exceptions as text. Nothing in a stored failure is ever looked up, imported or called again."""

from __future__ import annotations

import traceback
from typing import Any

from .records import Failure

__all__ = ["describe", "forget_frames"]

MAX_TRACEBACK = 64 * 1024
MAX_MESSAGE = 16 * 1024
MAX_ARGUMENT = 1000


def describe(error: BaseException) -> Failure:
    """What a store keeps of an exception that was caught. Its text always fits into a store: it is
    valid Unicode and of limited size."""
    kind = type(error)
    name = f"{kind.__module__}.{kind.__qualname__}"
    frames = error.__traceback__
    inner = frames.tb_next if frames else None  # leave the frame that caught it out
    text = "".join(traceback.format_exception(kind, error, inner or frames))
    return Failure(
        type=name,
        message=_storable(_text(error), MAX_MESSAGE),
        traceback=_storable(text, MAX_TRACEBACK),
        args=_reprs(error.args),
    )


def forget_frames(error: BaseException) -> None:
    """Take the traceback off an exception that has been dealt with, and off those behind it.

    A task that keeps its error in a local variable ties error, traceback and frames to a ring. All
    its locals, megabytes perhaps, would wait for the garbage collector, which counts objects, not
    bytes. The frames themselves are left alone: a coroutine that goes on may be among them.
    """
    left, seen = [error], {id(error)}
    while left:
        each = left.pop()
        each.__traceback__ = None
        behind = (each.__cause__, each.__context__, *getattr(each, "exceptions", ()))
        for other in behind:
            if isinstance(other, BaseException) and id(other) not in seen:
                seen.add(id(other))
                left.append(other)


def _storable(text: str, limit: int) -> str:
    """Text without the halves of surrogate pairs (undecodable file names have them), which no
    store takes, and without its middle where it is too long."""
    if len(text) > limit:
        text = f"{text[: limit // 2]}\n…\n{text[-limit // 2 :]}"
    return text.encode("utf-8", "backslashreplace").decode()


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception as problem:
        return f"<no text: str() raised {type(problem).__name__}>"


def _reprs(values: tuple[Any, ...]) -> tuple[str, ...]:
    try:
        return tuple(_storable(repr(value), MAX_ARGUMENT) for value in values)
    except Exception:
        return ()  # a __repr__ of the user's failed; the message has to do
