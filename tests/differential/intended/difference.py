"""What a difference is, and tasks for the canvases that show one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.differential.agreeing import Leeway
from tests.differential.canvases import Canvas


@dataclass(frozen=True)
class Difference:
    """``example`` is a canvas that shows it."""

    name: str
    example: Canvas
    applies: Callable[[Canvas], bool]
    leeway: Leeway


def keep(tag: int) -> Canvas:
    return {"is": "task", "of": "keep", "tag": tag}


def fail(tag: int) -> Canvas:
    return {"is": "task", "of": "fail", "tag": tag}


def become(canvas: Canvas) -> Canvas:
    """A task that is replaced by a canvas."""
    return {"is": "task", "of": "become", "tag": canvas}
