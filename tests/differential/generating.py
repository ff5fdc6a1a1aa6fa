"""Random canvases, by hypothesis."""

from __future__ import annotations

import functools
import itertools
import json
import re
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from .canvases import Canvas

Draw = Callable[[st.SearchStrategy[Any]], Any]
"""How hypothesis gives values within a composite strategy. Handed on, since strategies within
strategies take most of the time."""

PLAIN = ("keep",) * 8 + ("tag", "nothing", "flaky", "again", "join")
UNSUCCESSFUL = ("fail", "fail", "trouble", "stubborn", "refuse", "skip")
SEVERAL = ("chain", "or", "group", "chord")
KINDS = (*SEVERAL, *SEVERAL, "chunks")
STYLES = ("new", "old", "fixed")
MARKS = ("red", "blue")
KEEP: Canvas = {"is": "task", "of": "keep", "tag": 0}
SIMPLER = {"join": "keep", "refuse": "fail", "skip": "fail"}
"""For `simple`, what stands for tasks that do something else."""
DEPTH = 4
WIDE = 9
"""Members of the groups that are wide: between two of them, jobs of ours collect."""
ITEMS = st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=2), max_size=5)
MAYBE_EMPTY = st.lists(st.lists(st.integers(0, 9), max_size=2), max_size=3)
GIVEN = st.sampled_from(["p", 5, None, [1]])
NUMBERS = st.lists(st.integers(0, 9), max_size=3)
ERRBACKS = st.lists(st.sampled_from(STYLES), min_size=1, max_size=2, unique=True)


@functools.cache
def die(sides: int) -> st.SearchStrategy[int]:
    return st.integers(0, sides - 1)


@functools.cache
def one_of(values: tuple[Any, ...]) -> st.SearchStrategy[Any]:
    return st.sampled_from(values)


@st.composite
def canvases(draw: Draw) -> Canvas:
    """A canvas as it is applied."""
    made = canvas(draw, DEPTH)
    if draw(die(6)) == 0:
        made["given"] = [draw(GIVEN)]
    if draw(die(12)) == 0:
        made["call"] = _call(draw)
    elif made["is"] in ("chain", "or", "group", "chunks") and draw(die(12)) == 0:
        made["called"] = True
    return made


def canvas(draw: Draw, depth: int, *, replacing: bool = True) -> Canvas:
    """A canvas of some depth."""
    deeper = depth > 0 and (depth == DEPTH or draw(die(10)) < 4)
    made = _several(draw, depth) if deeper else _task(draw, depth, replacing=replacing)
    return _with_more(draw, made)


def _call(draw: Draw) -> dict[str, Any]:
    kind = draw(one_of(("kwargs", "links", "errbacks")))
    if kind == "kwargs":
        return {"kwargs": {"k": draw(die(4))}}
    if kind == "links":
        return {"links": [canvas(draw, 1, replacing=False)]}
    return {"errbacks": [draw(one_of(STYLES))]}


def _with_more(draw: Draw, made: Canvas) -> Canvas:
    """Now and then, with what any canvas may have."""
    rare = draw(die(32))
    if rare == 0 and made["is"] == "task":
        made["args"] = [draw(GIVEN)]
    elif rare == 1:
        made["links"] = [canvas(draw, draw(die(2)), replacing=False)]
    elif rare in (2, 3, 4):
        made["errbacks"] = draw(ERRBACKS)
    elif rare == 5:
        made["immutable"] = True
    elif rare == 6:
        made["stamp"] = draw(one_of(MARKS))
    elif rare == 7 and '"lazy"' not in json.dumps(made):
        made["json"] = True
    elif rare == 8 and made["is"] == "task":
        made["kwargs"] = {"k": draw(die(4))}
    elif rare == 9:
        made["visitor"] = draw(one_of(MARKS))
    elif rare == 10 and made["is"] == "task":
        made["ignored"] = True
    return made


def _task(draw: Draw, depth: int, *, replacing: bool) -> Canvas:
    kind = draw(die(30))
    if kind < 4:
        return {"is": "task", "of": draw(one_of(UNSUCCESSFUL)), "tag": 0}
    if kind == 4 and replacing:
        inner = canvas(draw, min(depth, 2), replacing=depth > 1)
        return {"is": "task", "of": "become", "tag": inner}
    if kind == 5:
        return {"is": "map", "of": "keep", "items": draw(NUMBERS)}
    if kind == 6:
        return {"is": "starmap", "of": "keep", "items": draw(MAYBE_EMPTY)}
    return {"is": "task", "of": draw(one_of(PLAIN)), "tag": 0}


def _several(draw: Draw, depth: int) -> Canvas:
    kind = draw(one_of(KINDS))
    if kind == "chunks":
        return {"is": "chunks", "of": "keep", "items": draw(ITEMS)}
    smallest = 1 if kind == "or" or draw(die(10)) else 0
    count = smallest + draw(die(4 - smallest))
    made: Canvas = {"is": kind, "of": [canvas(draw, depth - 1) for _ in range(count)]}
    if kind == "chord":
        made["body"] = canvas(draw, depth - 1)
    if kind in ("group", "chord"):
        if draw(die(20)) == 0:
            made["of"] = [{"is": "task", "of": "keep", "tag": 0} for _ in range(WIDE)]
        if draw(die(8)) == 0:
            made["lazy"] = True
    return made


def numbered(canvas: Canvas) -> Canvas:
    """The same, with an argument for each task that no other one has."""
    count = 0

    def renewed(value: Any) -> Any:
        nonlocal count
        if isinstance(value, list):
            return [renewed(each) for each in value]
        if not isinstance(value, dict):
            return value
        made = {key: renewed(each) for key, each in value.items()}
        if made.get("is") == "task" and not isinstance(made["tag"], dict):
            count += 1
            made["tag"] = count
        return made

    found: Canvas = renewed(canvas)
    return found


def shape(canvas: Canvas) -> str:
    """What two canvases have in common that differ in nothing but numbers."""
    return re.sub(r"\d+", "0", json.dumps(canvas))


def simple(canvas: Canvas) -> Canvas:
    """The same of nothing but tasks that succeed, fail, are retried or are replaced, in chains,
    groups and chords that have tasks, with links and error callbacks."""
    if canvas["is"] not in ("task", *SEVERAL):
        return dict(KEEP)
    made: Canvas = {key: canvas[key] for key in ("is", "of", "tag", "errbacks") if key in canvas}
    if "links" in canvas:
        made["links"] = list(map(simple, canvas["links"]))
    call = canvas.get("call", {})
    if "errbacks" in call:
        made["call"] = call
    elif "links" in call:
        made["call"] = {"links": list(map(simple, call["links"]))}
    if canvas["is"] != "task":
        made["of"] = list(map(simple, canvas["of"])) or [dict(KEEP)]
    elif canvas["of"] == "become":
        made["tag"] = simple(canvas["tag"])
    else:
        made["of"] = SIMPLER.get(canvas["of"], canvas["of"])
    if "body" in canvas:
        made["body"] = simple(canvas["body"])
    return made


def generated(examples: int, seeded: int, made: Callable[[Canvas], Canvas] = dict) -> list[Canvas]:
    """So many canvases of different shapes, of what is ``made`` of each; the same ones for the same
    seed."""
    found: dict[str, Canvas] = {}
    for portion in itertools.count():
        _collect(found, examples, f"{seeded}.{portion}", made)
        if len(found) >= examples:
            return list(found.values())[:examples]
    raise AssertionError("never")


def _collect(
    found: dict[str, Canvas], examples: int, seeded: str, made: Callable[[Canvas], Canvas]
) -> None:
    @seed(seeded)
    @settings(
        max_examples=examples,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(canvases())
    def collect(canvas: Canvas) -> None:
        one = numbered(made(canvas))
        found.setdefault(shape(one), one)

    collect()
