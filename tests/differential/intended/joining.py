"""Tasks that join a header while it runs."""

from __future__ import annotations

from typing import Any

from tests.differential.agreeing import Agreement, Leeway, Run
from tests.differential.canvases import Canvas
from tests.differential.reading import (
    ends_as_group,
    is_group,
    is_nothing,
    members,
    within,
)

from .difference import Difference, fail, keep
from .shared import (
    order,
)


def _joins_at_the_end_of_a_header(canvas: Canvas) -> bool:
    """Whether a task joins a header that has a chain or a chord in it which ends as a group, or
    that is in one in another header."""
    return any(
        one["of"] == "join"
        for each in within(canvas)
        if any(
            member["is"] in ("chain", "or", "chord") and ends_as_group(member)
            for member in members(each)
        )
        for member in members(each)
        for one in within(member)
    )


def _joins_without_a_body(canvas: Canvas) -> bool:
    return any(
        one["of"] == "join"
        for each in within(canvas)
        for header, *behind in _headers(each)
        if all(map(is_nothing, behind))
        for one in within(header)
    )


def _headers(canvas: Canvas) -> list[list[Canvas]]:
    """Those of a chord or of a chain, each with what follows it."""
    if canvas["is"] == "chord":
        return [[{"is": "group", "of": canvas["of"]}, canvas["body"]]]
    parts = canvas["of"] if canvas["is"] in ("chain", "or") else []
    return [parts[number:] for number in range(len(parts) - 1) if is_group(parts[number])]


def _is_added(both: Agreement, run: Run) -> bool:
    """Whether it is a task that was added to a header."""
    tags = [each["tag"] for each in within(both.canvas) if each["of"] == "join"]
    return run[0] == "keep" and run[1] in [[[tag]] for tag in tags]


def _joined(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery loses the results of tasks that have joined a header; here they come last."""
    if not isinstance(theirs, list) or not isinstance(ours, list) or len(ours) <= len(theirs):
        return False
    tags = [each["tag"] for each in within(both.canvas) if each["of"] == "join"]
    more = ours[len(theirs) :]
    return all(one in [[[tag]] for tag in tags] for one in more) and both.same(
        theirs, ours[: len(theirs)]
    )


added = Leeway(more=_is_added)
joined = Leeway(node=_joined)


DIFFERENCES = [
    Difference(
        "tasks that join a header without a body",
        {
            "is": "chord",
            "of": [{**keep(1), "of": "join"}, fail(2)],
            "body": {"is": "group", "of": []},
        },
        _joins_without_a_body,
        added,
    ),
    Difference(
        "tasks that join a header come last",
        {"is": "chord", "of": [{**keep(1), "of": "join"}, keep(2)], "body": keep(3)},
        lambda canvas: any(each["of"] == "join" for each in within(canvas)),
        order,
    ),
    Difference(
        "tasks that join the end of a header",
        {
            "is": "chord",
            "of": [
                {
                    "is": "chain",
                    "of": [keep(1), {"is": "group", "of": [{**keep(2), "of": "join"}, keep(3)]}],
                },
                keep(4),
            ],
            "body": keep(5),
        },
        _joins_at_the_end_of_a_header,
        joined,
    ),
]
