"""Tasks that are replaced by a canvas that ends as a group."""

from __future__ import annotations

import json
from typing import Any

from tests.differential.agreeing import Agreement, Leeway, Run
from tests.differential.canvases import Canvas
from tests.differential.headers import body_of
from tests.differential.reading import (
    chained,
    ends_as_group,
    is_chord,
    is_group,
    members,
    runs_of,
    within,
)

from .difference import Difference, become, fail, keep
from .shared import CALLBACKS, NOT_A_SIGNATURE, is_pending, told, without


def _becomes_a_body(canvas: Canvas) -> bool:
    """Whether a task is replaced by a chord whose body ends as a group."""
    return any(
        each["is"] == "task" and each["of"] == "become" and _is_group_at_last(each["tag"])
        for each in within(canvas)
    )


def _is_group_at_last(canvas: Canvas) -> bool:
    """Whether it begins or ends as a chord, and ends as a group."""
    if canvas["is"] in ("chain", "or") and canvas["of"]:
        first, last = canvas["of"][0], canvas["of"][-1]
        begins = len(canvas["of"]) > 1 and (is_group(first) or is_chord(first))
        return ends_as_group(canvas) and (begins or _is_group_at_last(last))
    return canvas["is"] == "chord" and ends_as_group(canvas["body"])


def _becomes_a_body_in_a_header(canvas: Canvas) -> bool:
    """Whether that is a task at the end of a member of a header."""
    return any(
        _becomes_a_body(_last_of(member))
        for each in within(canvas)
        if is_chord(each)
        for header in ([each] if each["is"] == "chord" else filter(is_group, each["of"]))
        for member in members(header)
    )


def _last_of(canvas: Canvas) -> Canvas:
    while canvas["is"] in ("chain", "or") and canvas["of"]:
        canvas = canvas["of"][-1]
    return canvas


def _one_of_a_body(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery hands on what one task of such a group gives, here that is the list of them all."""
    if not isinstance(ours, list) or not ours:
        return False
    owns = {own for _, own in both.about(_bodies)}
    ends = {json.dumps(one[-1:] if isinstance(one, list) else [one]) for one in ours}
    return ends <= owns and any(both.same(theirs, one) for one in ours)


def _own_is_pending(both: Agreement, theirs: Any, ours: Any) -> bool:
    """The result of a task that was replaced, which Celery gives to none: here it is the list of
    those of a group."""
    return (
        is_pending(theirs)
        and isinstance(ours, dict)
        and isinstance(ours.get("value"), list)
        and both.same(without(theirs, "state"), without(ours, "value"))
    )


def _never_got_own(both: Agreement, theirs: Any, ours: Any) -> bool:
    return theirs == "not ready" and isinstance(ours, dict) and isinstance(ours.get("value"), list)


def _is_of_a_body(both: Agreement, run: Run) -> bool:
    """Whether it is an error callback of a task that was replaced, which Celery calls for the tasks
    of the group at the end: here it is called as well, for the task itself."""
    if run[0] not in CALLBACKS:
        return False
    name, style = ("<id>", "fixed") if run[1] == ["fixed"] else (run[1][0], run[1][-1])
    of_one = {f"<{of}:{own}>" for of, own in both.about(_bodies)}
    return name in {"<id>", *of_one} and any(
        called[0] == run[0]
        and called[1][-1] == style
        and (style == "fixed" or called[1][0].startswith("<become:"))
        for called in map(json.loads, both.ours["ran"])
    )


def _bodies(canvas: Canvas) -> set[tuple[str, str]]:
    """The runs of what tasks were replaced by."""
    return runs_of(
        each["tag"]
        for each in within(canvas)
        if each["of"] == "become" and _is_group_at_last(each["tag"])
    )


def _becomes_a_linked_body(canvas: Canvas) -> bool:
    """The same, where there are links."""
    linked = "links" in canvas.get("call", {}) or any("links" in each for each in within(canvas))
    return linked and _becomes_a_body(canvas)


def _failed_to_link(both: Agreement) -> bool:
    """Celery cannot hand the links on, and the task fails: all that it ran was run here."""
    found = json.dumps(both.theirs.get("result"))
    return NOT_A_SIGNATURE in found and "error" not in both.ours and both.runs(more=True)


def _behind_what_became_a_group(canvas: Canvas) -> set[tuple[str, str]]:
    """The runs of what is behind a task with error callbacks that is replaced by a chain that ends
    as a group."""
    return runs_of(
        behind
        for each in within(canvas)
        if each["is"] in ("chain", "or")
        for number, step in enumerate(each["of"], 1)
        if step["of"] == "become" and "errbacks" in step and step["tag"]["is"] in ("chain", "or")
        if ends_as_group(step["tag"])
        for behind in each["of"][number:]
    )


def _is_called_for_others(both: Agreement, run: Run) -> bool:
    found = both.about(_behind_what_became_a_group)
    names = {"fixed", "<id>", *(f"<{name}:{own}>" for name, own in found)}
    return run[0] in CALLBACKS and run[1][0] in names


def _bodies_with_equal_errbacks(canvas: Canvas) -> list[Canvas]:
    """The chains that are bodies of chords that tasks are replaced by, where an error callback is
    said both of the task and in the chord."""
    return [
        step
        for each in within(canvas)
        if each["of"] == "become" and "errbacks" in each
        if {style for one in within(each["tag"]) for style in one.get("errbacks", ())}
        & {*each["errbacks"]}
        for step in _chain_at_the_end(each["tag"])
    ]


def _chain_at_the_end(canvas: Canvas) -> list[Canvas]:
    """Of a chord, or of the chord that is its body: nothing, if that is no chain."""
    body = body_of(canvas) or []
    if len(body) == 1:
        return body if body[0]["is"] in ("chain", "or") else _chain_at_the_end(body[0])
    return body


def _is_called_again(both: Agreement, run: Run) -> bool:
    """Whether Celery calls it once, and here it is called for both."""
    found = runs_of(both.about(_bodies_with_equal_errbacks))
    names = {"fixed", *(f"<{name}:{own}>" for name, own in found)}
    line, ran = json.dumps(run), both.ours["ran"]
    once: bool = line in both.theirs["ran"] and ran.count(line) == 2
    return run[0] in CALLBACKS and run[1][0] in names and once


def _becomes_a_chord_with_errbacks(canvas: Canvas) -> bool:
    return any("errbacks" in each for each in (canvas.get("call", {}), *within(canvas))) and any(
        each["of"] == "become" and is_chord(each["tag"]) for each in within(canvas)
    )


def _is_told_of_the_last(both: Agreement, theirs: Any, ours: Any) -> bool:
    return theirs == "<id>" and isinstance(ours, str) and ours.startswith("<become:")


def _linked_behind_a_body(canvas: Canvas) -> bool:
    return bool(_links_behind_a_body(canvas))


def _links_behind_a_body(canvas: Canvas) -> list[Canvas]:
    """The links of chains that tasks are replaced by, with a chord behind other steps and several
    tasks behind its header."""
    return [
        link
        for each in within(canvas)
        if each["of"] == "become" and each["tag"]["is"] in ("chain", "or")
        for before in range(1, len(chained(each["tag"])))
        if len(body_of({"is": "or", "of": chained(each["tag"])[before:]}) or ()) > 1
        for link in each["tag"].get("links", ())
    ]


def _is_such_a_link(both: Agreement, run: Run) -> bool:
    """Whether Celery calls it with what the first task of the body gives, and here it gets what the
    last one gives."""
    return told(run) in runs_of(both.about(_links_behind_a_body))


own_is_pending = Leeway(node=_own_is_pending, got=_never_got_own, fewer=_is_of_a_body)
one_of_a_body = Leeway(node=_one_of_a_body)
failed_to_link = Leeway(outcome=_failed_to_link)
told_of_the_last = Leeway(node=_is_told_of_the_last)
linked_later = Leeway(more=_is_such_a_link, fewer=_is_such_a_link)


DIFFERENCES = [
    Difference(
        "the result of a task replaced by a chord that ends as a group",
        {
            "is": "chain",
            "of": [
                become(
                    {
                        "is": "chord",
                        "of": [keep(1)],
                        "body": {"is": "group", "of": [keep(2), keep(3)]},
                    }
                ),
                keep(4),
            ],
        },
        _becomes_a_body,
        own_is_pending,
    ),
    Difference(
        "a task of a header replaced by a chain whose chord ends as a group",
        {
            "is": "chord",
            "of": [
                become(
                    {
                        "is": "chain",
                        "of": [
                            keep(1),
                            {
                                "is": "chord",
                                "of": [keep(2)],
                                "body": {"is": "group", "of": [keep(3), keep(4)]},
                            },
                        ],
                    }
                ),
                keep(5),
            ],
            "body": keep(6),
        },
        _becomes_a_body_in_a_header,
        one_of_a_body,
    ),
    Difference(
        "links of a task replaced by a chord that ends as a group",
        {
            **become(
                {
                    "is": "chord",
                    "of": [keep(1)],
                    "body": {"is": "group", "of": [keep(2), keep(3)]},
                }
            ),
            "links": [keep(4)],
        },
        _becomes_a_linked_body,
        failed_to_link,
    ),
    Difference(
        "error callbacks of a task replaced by a chain that ends as a group",
        {
            "is": "or",
            "of": [
                {
                    **become(
                        {"is": "chain", "of": [keep(1), {"is": "group", "of": [keep(2), keep(3)]}]}
                    ),
                    "errbacks": ["old"],
                },
                fail(4),
            ],
        },
        lambda canvas: bool(_behind_what_became_a_group(canvas)),
        Leeway(fewer=_is_called_for_others),
    ),
    Difference(
        "an error callback both of a task and of the chain behind the chord that it becomes",
        {
            **become(
                {
                    "is": "chord",
                    "of": [keep(1)],
                    "body": {"is": "chain", "of": [keep(2), fail(3)], "errbacks": ["new"]},
                }
            ),
            "errbacks": ["new"],
        },
        lambda canvas: bool(_bodies_with_equal_errbacks(canvas)),
        Leeway(more=_is_called_again),
    ),
    Difference(
        "links of a chain with a chord that a task is replaced by",
        become(
            {
                "is": "chain",
                "of": [
                    keep(1),
                    {"is": "chord", "of": [keep(2), keep(3)], "body": keep(4)},
                    keep(5),
                ],
                "links": [keep(6)],
            }
        ),
        _linked_behind_a_body,
        linked_later,
    ),
    Difference(
        "whose id error callbacks of a body get",
        {
            **become(
                {
                    "is": "chain",
                    "of": [keep(1), {"is": "group", "of": [keep(2), fail(3)]}, keep(4), keep(5)],
                }
            ),
            "errbacks": ["old"],
        },
        _becomes_a_chord_with_errbacks,
        told_of_the_last,
    ),
]
