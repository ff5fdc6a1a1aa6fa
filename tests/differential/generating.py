"""Random canvases, by hypothesis."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from .canvases import Canvas

PLAIN = ("keep",) * 8 + ("tag", "nothing", "flaky")
FAILING = ("fail", "fail", "trouble", "stubborn")
SEVERAL = ("chain", "or", "group", "chord")
GIVEN = ("p", 5, None, [1])
DEPTH = 3


@st.composite
def canvases(draw: Any, depth: int = DEPTH, *, replacing: bool = True) -> Canvas:
    """A canvas of some depth."""
    deeper = depth > 0 and draw(st.integers(0, 9)) < (10 if depth == DEPTH else 4)
    made = draw(_several(depth) if deeper else _task(depth, replacing=replacing))
    made = _with_more(draw, made)
    if depth == DEPTH and draw(st.integers(0, 5)) == 0:
        made["given"] = [draw(st.sampled_from(GIVEN))]
    return made


def _with_more(draw: Any, made: Canvas) -> Canvas:
    """Now and then, with what any canvas may have."""
    rare = draw(st.integers(0, 29))
    if rare == 0 and made["is"] == "task":
        made["args"] = [draw(st.sampled_from(GIVEN))]
    elif rare == 1:
        made["links"] = [draw(canvases(0, replacing=False))]
    elif rare in (2, 3, 4):
        made["errbacks"] = draw(
            st.lists(st.sampled_from(["new", "old", "fixed"]), min_size=1, max_size=2, unique=True)
        )
    elif rare == 5 and made["is"] not in SEVERAL:
        made["immutable"] = True
    elif rare == 6:
        made["stamp"] = draw(st.sampled_from(["red", "blue"]))
    elif rare == 7 and '"lazy"' not in json.dumps(made):
        made["json"] = True
    elif rare == 8 and made["is"] == "task":
        made["kwargs"] = {"k": draw(st.integers(0, 3))}
    return made


@st.composite
def _task(draw: Any, depth: int, *, replacing: bool) -> Canvas:
    kind = draw(st.integers(0, 29))
    if kind < 4:
        return {"is": "task", "of": draw(st.sampled_from(FAILING)), "tag": 0}
    if kind == 4 and replacing:
        return {"is": "task", "of": "become", "tag": draw(canvases(min(depth, 1), replacing=False))}
    if kind == 5:
        return {"is": "map", "of": "keep", "items": draw(st.lists(st.integers(0, 9), max_size=3))}
    if kind == 6:
        items = draw(st.lists(st.lists(st.integers(0, 9), max_size=2), max_size=3))
        return {"is": "starmap", "of": "keep", "items": items}
    return {"is": "task", "of": draw(st.sampled_from(PLAIN)), "tag": 0}


@st.composite
def _several(draw: Any, depth: int) -> Canvas:
    kind = draw(
        st.sampled_from(
            ["chain", "chain", "or", "or", "group", "group", "chord", "chord", "chunks"]
        )
    )
    if kind == "chunks":
        items = draw(st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=2), max_size=5))
        return {"is": "chunks", "of": "keep", "items": items}
    inner = canvases(depth - 1)
    smallest = 1 if kind == "or" or draw(st.integers(0, 9)) else 0
    made: Canvas = {"is": kind, "of": draw(st.lists(inner, min_size=smallest, max_size=3))}
    if kind == "chord":
        made["body"] = draw(inner)
    if kind in ("group", "chord") and draw(st.integers(0, 7)) == 0:
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


def generated(examples: int, seeded: int) -> list[Canvas]:
    """So many different canvases; the same ones for the same seed."""
    found: dict[str, Canvas] = {}

    @seed(seeded)
    @settings(
        max_examples=examples * 2,
        phases=[Phase.generate],
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(canvases())
    def collect(canvas: Canvas) -> None:
        made = numbered(canvas)
        found.setdefault(repr(made), made)

    collect()
    return list(found.values())[:examples]
