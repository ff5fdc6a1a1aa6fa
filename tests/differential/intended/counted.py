"""Headers whose tasks Celery counts wrong: what is behind them never starts there."""

from __future__ import annotations

from tests.differential.canvases import Canvas
from tests.differential.headers import body_of, flat, headers, last_tasks, nested
from tests.differential.reading import (
    chained,
    ends_in_nothing,
    group_at_the_end,
    is_group,
    is_nothing,
    members,
)

from .difference import Difference, become, keep
from .shared import never_started


def _behind_a_chord_at_the_end(canvas: Canvas) -> list[Canvas]:
    """What is behind a header in which something ends as a group of several tasks, one of which is
    a chord with a single task, or another chord, as its body."""
    return [
        each
        for header in headers(canvas)
        if any(map(_ends_as_group_with_a_chord, nested(header)))
        for each in header.behind
    ]


def _ends_as_group_with_a_chord(member: Canvas) -> bool:
    found = flat(members(group_at_the_end(member)))
    return len(found) > 1 and any(_is_chord_of_one(each) for each in found)


def _is_chord_of_one(canvas: Canvas) -> bool:
    body = body_of(canvas)
    return body is not None and len(body) == 1 and not _is_several(body[0])


def _is_several(canvas: Canvas) -> bool:
    return canvas["is"] in ("chain", "or", "group", "chunks") and body_of(canvas) is None


def _behind_what_becomes_a_chord(canvas: Canvas) -> list[Canvas]:
    """What is behind a header with a task at the end of a member that is replaced by a chord whose
    body is a chain or a group, or with such a task before the last one of a chain, whose body is a
    group: what comes behind it joins the chord."""
    return [
        each
        for header in headers(canvas)
        if any(
            any(map(_becomes_a_chord, last_tasks(one))) or _becomes_a_chord_before_the_last(one)
            for one in header.members
        )
        for each in header.behind
    ]


def _becomes_a_chord_before_the_last(member: Canvas) -> bool:
    *_, before, last = [None, None, *chained(member)]
    if before is None or before["of"] != "become" or is_group(last):
        return False
    body = body_of(before["tag"])
    return body is not None and len(body) == 1 and body[0]["is"] in ("group", "chunks")


def _becomes_a_chord(task: Canvas) -> bool:
    body = body_of(task["tag"]) if task["of"] == "become" else None
    return body is not None and (len(body) > 1 or any(map(_is_several, body)))


def _behind_nothing_from_a_generator(canvas: Canvas) -> list[Canvas]:
    return [
        each
        for header in headers(canvas)
        if header.canvas.get("lazy") and any(map(is_nothing, members(header.canvas)))
        for each in header.behind
    ]


def _behind_a_header_of_nothing(canvas: Canvas) -> list[Canvas]:
    return [
        each
        for header in headers(canvas)
        if header.canvas["of"] and all(map(ends_in_nothing, header.canvas["of"]))
        for each in header.behind
    ]


DIFFERENCES = [
    Difference(
        "a chord in a group at the end of a header",
        {
            "is": "chord",
            "of": [
                {
                    "is": "chain",
                    "of": [
                        keep(1),
                        {
                            "is": "group",
                            "of": [{"is": "chord", "of": [keep(2)], "body": keep(3)}, keep(4)],
                        },
                    ],
                },
                keep(5),
            ],
            "body": keep(6),
        },
        lambda canvas: bool(_behind_a_chord_at_the_end(canvas)),
        never_started(_behind_a_chord_at_the_end),
    ),
    Difference(
        "a task of a header replaced by a chord whose body is several",
        {
            "is": "chord",
            "of": [
                become(
                    {
                        "is": "chord",
                        "of": [keep(1)],
                        "body": {"is": "or", "of": [keep(2), keep(3)]},
                    }
                )
            ],
            "body": keep(4),
        },
        lambda canvas: bool(_behind_what_becomes_a_chord(canvas)),
        never_started(_behind_what_becomes_a_chord),
    ),
    Difference(
        "nothing in a header from a generator",
        {"is": "chord", "of": [{"is": "chain", "of": []}], "body": keep(1), "lazy": True},
        lambda canvas: bool(_behind_nothing_from_a_generator(canvas)),
        never_started(_behind_nothing_from_a_generator),
    ),
    Difference(
        "a header of chords that end in nothing",
        {
            "is": "chord",
            "of": [{"is": "chord", "of": [keep(1)], "body": {"is": "group", "of": []}}],
            "body": keep(2),
        },
        lambda canvas: bool(_behind_a_header_of_nothing(canvas)),
        never_started(_behind_a_header_of_nothing),
    ),
]
