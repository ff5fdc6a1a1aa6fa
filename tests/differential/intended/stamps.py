"""Stamps."""

from __future__ import annotations

import json
from typing import Any

from tests.differential.agreeing import Agreement, Leeway, Run
from tests.differential.canvases import Canvas
from tests.differential.reading import (
    is_chord,
    within,
)

from .difference import Difference, keep
from .shared import (
    CALLBACKS,
)


def _stamped_chord(canvas: Canvas) -> bool:
    return any("stamp" in each and any(map(is_chord, within(each))) for each in within(canvas))


def _visited_chord_as_link(canvas: Canvas) -> bool:
    return any(
        "visitor" in each and any(map(is_chord, one.get("links", ())))
        for each in within(canvas)
        for one in within(each)
    )


def _stamped(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Tasks have a stamp here that they have not there: none there, or another one."""
    marks = {each["stamp"] for each in within(both.canvas) if "stamp" in each}
    return ours.get("mark") in marks


def _visited(both: Agreement, theirs: Any, ours: Any) -> bool:
    """The same for the stamp of a visitor."""
    return ours.get("mark") in {each.get("visitor") for each in within(both.canvas)} - {None}


def _is_doubled(both: Agreement, run: Run) -> bool:
    """Whether it is a callback that Celery calls once: it is there with a stamp and without."""
    return run[0] in CALLBACKS and json.dumps(run[:2]) in both.theirs["ran"]


stamps = Leeway(stamps=_stamped, more=_is_doubled)
visitor_stamps = Leeway(stamps=_visited)


DIFFERENCES = [
    Difference(
        "stamps that are keywords reach the body of a chord",
        {"is": "chord", "of": [keep(1)], "body": keep(2), "stamp": "red"},
        _stamped_chord,
        stamps,
    ),
    Difference(
        "stamps by a visitor reach chords that are links",
        {
            "is": "chord",
            "of": [keep(1)],
            "body": {
                "is": "or",
                "of": [
                    keep(2),
                    {**keep(3), "links": [{"is": "chord", "of": [keep(4)], "body": keep(5)}]},
                    keep(6),
                ],
            },
            "visitor": "red",
        },
        _visited_chord_as_link,
        visitor_stamps,
    ),
]
