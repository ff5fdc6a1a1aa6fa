"""What is meant to differ (docs/celery/differences.md), as narrow as it can be said.

A difference says to which canvases it applies (`reading`), and what of the outcomes is then left
out of the comparison (`leaving_out`): everything else still has to be the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

from . import leaving_out
from .canvases import Canvas
from .leaving_out import Pair
from .observed import Outcome
from .reading import failing, is_chord, is_group, is_nothing, members, within


@dataclass(frozen=True)
class Difference:
    """``example`` is a canvas that shows it. ``leave_out`` gives outcomes without it."""

    name: str
    example: Canvas
    applies: Callable[[Canvas], bool]
    leave_out: Callable[[Outcome, Outcome], Pair]


def explained(canvas: Canvas, theirs: Outcome, ours: Outcome) -> list[str] | None:
    """The names of the differences that are meant to be; ``None`` if there is another one."""
    if theirs == ours:
        return []
    needed = [each for each in DIFFERENCES if each.applies(canvas)]
    if not _same_without(needed, theirs, ours):
        return None
    for difference in tuple(reversed(needed)):
        fewer = [each for each in needed if each is not difference]
        if _same_without(fewer, theirs, ours):
            needed = fewer
    return [each.name for each in needed]


def _same_without(differences: list[Difference], theirs: Outcome, ours: Outcome) -> bool:
    for difference in differences:
        if theirs != ours:
            theirs, ours = difference.leave_out(theirs, ours)
    return theirs == ours


# -- the differences -----------------------------------------------------------------------------


def _keep(tag: int) -> Canvas:
    return {"is": "task", "of": "keep", "tag": tag}


def _fail(tag: int) -> Canvas:
    return {"is": "task", "of": "fail", "tag": tag}


def _fails(canvas: Canvas) -> bool:
    return bool(failing(canvas))


def _fail_several(canvas: Canvas) -> bool:
    return len(failing(canvas)) > 1


def _empty(canvas: Canvas) -> bool:
    return any(map(is_nothing, within(canvas)))


def _group_in_header(canvas: Canvas) -> bool:
    return any(any(is_group(member) for member in members(each)) for each in within(canvas))


def _empty_header(canvas: Canvas) -> bool:
    return any(
        is_nothing(member)
        for each in within(canvas)
        if each["is"] in ("chord", "chain", "or")
        for member in ({**each, "is": "group"}, *each["of"])
    )


def _failing_chord(canvas: Canvas) -> bool:
    return _fails(canvas) and any(map(is_chord, within(canvas)))


def _failing_chord_of_groups(canvas: Canvas) -> bool:
    """Whether a header has a chord in it that ends as a group."""
    return _fails(canvas) and any(
        each["is"] == "chord" and is_group(each["body"]) for each in within(canvas)
    )


def _callbacks_beside_empty_header(canvas: Canvas) -> bool:
    return _empty_header(canvas) and any("errbacks" in each for each in within(canvas))


def _stamped_chord(canvas: Canvas) -> bool:
    return any("stamp" in each and any(map(is_chord, within(each))) for each in within(canvas))


def _lazy_header_with_nothing(canvas: Canvas) -> bool:
    return any(
        is_chord(each) and each.get("lazy") and any(map(is_nothing, members(each)))
        for each in within(canvas)
    )


def _links_of_lone_chain(canvas: Canvas) -> bool:
    return any(
        "links" in member or "errbacks" in member
        for each in within(canvas)
        if each["is"] == "chain" and len(each["of"]) == 1
        for member in each["of"]
        if member["is"] in ("chain", "or")
    )


def _lazy_group_of_groups(canvas: Canvas) -> bool:
    return any(each.get("lazy") and any(map(is_group, each["of"])) for each in within(canvas))


def _given_to_a_lone_group(canvas: Canvas) -> bool:
    only = canvas
    while only["is"] in ("chain", "or") and len(only["of"]) == 1:
        only = only["of"][0]
    return "given" in canvas and only is not canvas and is_group(only)


def _header_behind_a_group_of_one(canvas: Canvas) -> bool:
    return any(
        len(first["of"]) == 1 and is_group(first) and is_group(second)
        for each in within(canvas)
        if each["is"] in ("chain", "or")
        for first, second in itertools.pairwise(each["of"])
    )


def _ignored(canvas: Canvas) -> bool:
    return any("ignored" in each for each in within(canvas))


def _replaced_by_ignored(canvas: Canvas) -> bool:
    return any(
        each["of"] == "become" and _ignored(each["tag"])
        for each in within(canvas)
        if each["is"] == "task"
    )


def _chain_behind_lazy_nothing(canvas: Canvas) -> bool:
    return any(
        is_nothing(second)
        and (second.get("lazy") or second["is"] == "chunks")
        and third["is"] in ("chain", "or")
        for each in within(canvas)
        if each["is"] in ("chain", "or")
        for second, third in itertools.pairwise(each["of"])
    )


def _immutable_group_of_chains(canvas: Canvas) -> bool:
    return any(
        ("immutable" in each or "immutable" in member) and member["is"] in ("chain", "or")
        for each in within(canvas)
        if each["is"] in ("group", "chord")
        for member in each["of"]
    )


def _keywords_for_an_immutable_chain(canvas: Canvas) -> bool:
    given = "kwargs" in canvas.get("call", {})
    return given and "immutable" in canvas and canvas["is"] in ("chain", "or")


def _keywords_for_a_chord(canvas: Canvas) -> bool:
    """Whether a chain that begins with several tasks is given keywords."""
    first = canvas
    while first["is"] in ("chain", "or") and first["of"]:
        first = first["of"][0]
    given = "kwargs" in canvas.get("call", {})
    return given and first is not canvas and first["is"] in ("chord", "group", "chunks")


DIFFERENCES = [
    Difference(
        "canvases that are empty",
        {"is": "chord", "of": [], "body": {"is": "chain", "of": []}},
        _empty,
        leaving_out.cannot_apply,
    ),
    Difference(
        "keywords for a chain that is immutable",
        {
            "is": "chain",
            "of": [_keep(1), _keep(2)],
            "immutable": True,
            "call": {"kwargs": {"k": 1}},
        },
        _keywords_for_an_immutable_chain,
        leaving_out.keywords_taken,
    ),
    Difference(
        "keywords for a chain that begins with a chord",
        {
            "is": "chain",
            "of": [{"is": "chord", "of": [_keep(1)], "body": _keep(2)}],
            "call": {"kwargs": {"k": 1}},
        },
        _keywords_for_a_chord,
        leaving_out.keywords,
    ),
    Difference(
        "replaced by a task whose result is ignored",
        {"is": "task", "of": "become", "tag": {**_keep(1), "ignored": True}},
        _replaced_by_ignored,
        leaving_out.replaced,
    ),
    Difference(
        "results that are ignored",
        {"is": "chain", "of": [{**_keep(1), "ignored": True}, _keep(2)]},
        _ignored,
        leaving_out.ignored,
    ),
    Difference(
        "a group without tasks in a group",
        {
            "is": "group",
            "of": [
                _keep(1),
                {"is": "chord", "of": [_keep(2)], "body": {"is": "group", "of": []}},
            ],
        },
        _empty,
        leaving_out.never_got,
    ),
    Difference(
        "nothing in a header from a generator",
        {"is": "chord", "of": [{"is": "chain", "of": []}], "body": _keep(1), "lazy": True},
        _lazy_header_with_nothing,
        leaving_out.never_ends,
    ),
    Difference(
        "stamps that are keywords reach the body of a chord",
        {"is": "chord", "of": [_keep(1)], "body": _keep(2), "stamp": "red"},
        _stamped_chord,
        leaving_out.stamps,
    ),
    Difference(
        "callbacks behind an empty header",
        {
            "is": "chord",
            "of": [{"is": "chord", "of": [], "body": _fail(1)}],
            "body": _keep(2),
            "errbacks": ["new"],
        },
        _callbacks_beside_empty_header,
        leaving_out.fewer_callbacks,
    ),
    Difference(
        "callbacks of what a failed chord keeps from running",
        {
            "is": "chord",
            "of": [{"is": "chord", "of": [_fail(1)], "body": _keep(2)}],
            "body": {**_keep(3), "errbacks": ["old"]},
        },
        _failing_chord,
        leaving_out.callbacks_behind,
    ),
    Difference(
        "what cannot run has failed",
        {"is": "chain", "of": [_fail(1), {"is": "group", "of": [_keep(2), _keep(3)]}]},
        _fails,
        leaving_out.never_ran,
    ),
    Difference(
        "results of a header behind a group of one",
        {
            "is": "group",
            "of": [
                {
                    "is": "chain",
                    "of": [
                        {"is": "group", "of": [_keep(1)]},
                        {"is": "group", "of": [_keep(2), _keep(3)]},
                        {"is": "group", "of": [_keep(4), _keep(5)]},
                    ],
                },
                _keep(6),
            ],
        },
        _header_behind_a_group_of_one,
        leaving_out.pending_header,
    ),
    Difference(
        "groups in groups keep their order",
        {"is": "chord", "of": [{"is": "group", "of": [_keep(1), _keep(2)]}], "body": _keep(3)},
        _group_in_header,
        leaving_out.order,
    ),
    Difference(
        "how a failed chord with a group as body is worded",
        {
            "is": "chord",
            "of": [
                _fail(1),
                {
                    "is": "chord",
                    "of": [_keep(2)],
                    "body": {"is": "group", "of": [_keep(3), _keep(4)]},
                },
            ],
            "body": _keep(5),
        },
        _failing_chord_of_groups,
        leaving_out.wording,
    ),
    Difference(
        "which of several errors is raised",
        {"is": "chord", "of": [{"is": "group", "of": [_fail(1), _fail(2)]}], "body": _keep(3)},
        _fail_several,
        leaving_out.which_error,
    ),
    Difference(
        "links of a chain that is all of another one",
        {"is": "chain", "of": [{"is": "chain", "of": [_fail(1)], "errbacks": ["new"]}]},
        _links_of_lone_chain,
        leaving_out.links,
    ),
    Difference(
        "groups from a generator that are in groups",
        {
            "is": "chord",
            "of": [],
            "body": {"is": "group", "of": [{"is": "group", "of": [_keep(1)]}], "lazy": True},
        },
        _lazy_group_of_groups,
        leaving_out.flat,
    ),
    Difference(
        "a chain behind an empty group from a generator",
        {
            "is": "or",
            "of": [
                {"is": "group", "of": [_keep(1), _keep(2)]},
                {"is": "chunks", "of": "keep", "items": []},
                {"is": "chain", "of": [_keep(3), _keep(4)]},
            ],
        },
        _chain_behind_lazy_nothing,
        leaving_out.never_ends,
    ),
    Difference(
        "chains in a group that is immutable",
        {
            "is": "group",
            "of": [{"is": "or", "of": [_keep(1), _keep(2)]}, _keep(3)],
            "immutable": True,
            "given": ["p"],
        },
        _immutable_group_of_chains,
        leaving_out.taken,
    ),
    Difference(
        "arguments of a chain that is one group",
        {
            "is": "chain",
            "of": [{"is": "group", "of": [_keep(1), _keep(2)]}],
            "given": ["p"],
        },
        _given_to_a_lone_group,
        leaving_out.given,
    ),
]
