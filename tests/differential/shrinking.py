"""A canvas that differs, made smaller for as long as it does."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from .canvases import Canvas
from .generating import numbered

Differs = Callable[[Sequence[Canvas]], list[bool]]

MOST = 50
"""Canvases that are tried at a time."""

MORE = (
    *("args", "kwargs", "immutable", "ignored", "links", "errbacks", "stamp", "visitor", "json"),
    *("lazy", "given", "call", "called"),
)
CANVASES = ("of", "links", "body", "tag")


def smallest(canvas: Canvas, differs: Differs) -> Canvas:
    """The smallest that is found to differ still; ``differs`` is asked of many at a time."""
    while True:
        smaller = sorted(unique(reductions(canvas)), key=size)[:MOST]
        found = [each for each, wrong in zip(smaller, differs(smaller), strict=True) if wrong]
        if not found:
            return canvas
        canvas = found[0]


def size(canvas: Canvas) -> int:
    return len(json.dumps(canvas))


def unique(canvases: Iterator[Canvas]) -> list[Canvas]:
    return list({json.dumps(each): each for each in map(numbered, canvases)}.values())


def reductions(canvas: Canvas) -> Iterator[Canvas]:
    """Canvases that have one thing less."""
    for key in CANVASES:
        inner = canvas.get(key)
        for each in inner if isinstance(inner, list) else [inner]:
            if isinstance(each, dict):
                yield each
    for key in MORE:
        if key in canvas:
            yield {name: value for name, value in canvas.items() if name != key}
    if canvas["is"] == "task" and canvas["of"] != "keep":
        yield {**canvas, "of": "keep", "tag": 0}
    if canvas.get("items"):
        yield {**canvas, "items": canvas["items"][:-1]}
    if canvas["is"] in ("chord", "or", "map", "starmap", "chunks"):
        yield from _simpler(canvas)
    for key in CANVASES:
        yield from _within(canvas, key)


def _simpler(canvas: Canvas) -> Iterator[Canvas]:
    if canvas["is"] == "or":
        yield {**canvas, "is": "chain"}
    elif canvas["is"] != "chord":
        yield {"is": "task", "of": "keep", "tag": 0}


def _within(canvas: Canvas, key: str) -> Iterator[Canvas]:
    inner: Any = canvas.get(key)
    if isinstance(inner, dict):
        yield from ({**canvas, key: each} for each in reductions(inner))
    elif isinstance(inner, list) and key != "errbacks":
        for number, each in enumerate(inner):
            before, after = inner[:number], inner[number + 1 :]
            if len(inner) > 1 or canvas["is"] != "or" or key != "of":
                yield {**canvas, key: [*before, *after]}
            if isinstance(each, dict):
                yield from ({**canvas, key: [*before, less, *after]} for less in reductions(each))
