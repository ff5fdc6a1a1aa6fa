"""What is meant to differ (docs/celery/differences.md), as narrow as it can be said.

A difference says to which canvases it applies (`reading`), and what it lets pass then (`leeways`):
everything else still has to be the same (`agreeing`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

from . import leeways
from .agreeing import Agreement, Leeway
from .canvases import CHUNK, Canvas
from .observed import Outcome
from .reading import (
    becomes_nothing,
    behind_groups_behind,
    ends_as_group,
    ends_in_nothing,
    failing,
    groups_behind,
    headers_with_lost_ends,
    is_chord,
    is_group,
    is_nothing,
    lone_steps,
    lost_links,
    members,
    within,
)


@dataclass(frozen=True)
class Difference:
    """``example`` is a canvas that shows it."""

    name: str
    example: Canvas
    applies: Callable[[Canvas], bool]
    leeway: Leeway


def explained(canvas: Canvas, theirs: Outcome, ours: Outcome) -> list[str] | None:
    """The names of the differences that are meant to be; ``None`` if there is another one."""
    if theirs == ours:
        return []
    needed = [each for each in DIFFERENCES if each.applies(canvas)]
    if not _agree(canvas, theirs, ours, needed):
        return None
    for difference in tuple(reversed(needed)):
        fewer = [each for each in needed if each is not difference]
        if _agree(canvas, theirs, ours, fewer):
            needed = fewer
    return [each.name for each in needed]


def _agree(canvas: Canvas, theirs: Outcome, ours: Outcome, differences: list[Difference]) -> bool:
    leeways = [each.leeway for each in differences]
    return Agreement(canvas, theirs, ours, leeways).holds()


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
    """Whether there may be a chord that fails; a task replaced by a group is the body of one."""
    return _fails(canvas) and any(
        is_chord(each) or (each["of"] == "become" and ends_as_group(each["tag"]))
        for each in within(canvas)
    )


def _failing_chord_of_groups(canvas: Canvas) -> bool:
    """Whether a header has a chord or a chain in it that ends as a group."""
    return _fails(canvas) and any(
        (each["is"] == "chord" and is_group(each["body"]))
        or any(is_group(member) and member["is"] in ("chain", "or") for member in members(each))
        for each in within(canvas)
    )


def _callbacks_beside_empty_header(canvas: Canvas) -> bool:
    return _empty_header(canvas) and any("errbacks" in each for each in within(canvas))


def _stamped_chord(canvas: Canvas) -> bool:
    return any("stamp" in each and any(map(is_chord, within(each))) for each in within(canvas))


def _visited_chord_as_link(canvas: Canvas) -> bool:
    return any(
        "visitor" in each and any(map(is_chord, one.get("links", ())))
        for each in within(canvas)
        for one in within(each)
    )


def _lazy_header_with_nothing(canvas: Canvas) -> bool:
    return any(
        is_chord(each) and each.get("lazy") and any(map(is_nothing, members(each)))
        for each in within(canvas)
    )


def _header_of_nothing(canvas: Canvas) -> bool:
    return any(
        len(each["of"]) > 0 and all(map(ends_in_nothing, each["of"]))
        for each in within(canvas)
        if each["is"] in ("chord", "group")
    )


def _fails_before_nothing(canvas: Canvas) -> bool:
    """Whether something may fail in a header before a chord in another one that ends in nothing."""
    return bool(headers_with_lost_ends(canvas))


def _behind_groups_behind(canvas: Canvas) -> bool:
    return bool(behind_groups_behind(canvas))


def _fails_before_the_end_of_a_header(canvas: Canvas) -> bool:
    """Whether a header has a chain or a chord in it that ends as a group, and may fail before."""
    return any(
        ends_as_group(member) and failing(member)
        for each in within(canvas)
        for member in members(each)
        if member["is"] in ("chain", "or", "chord")
    )


def _immutable_chord(canvas: Canvas) -> bool:
    return any("immutable" in each and any(map(is_chord, within(each))) for each in within(canvas))


def _links_of_lone_chain(canvas: Canvas) -> bool:
    if any("errbacks" in each for each in lone_steps(canvas)):
        return True
    return bool(lost_links(canvas)) or any(
        "errbacks" in member
        for each in within(canvas)
        if each["is"] == "chain" and len(each["of"]) == 1
        for member in each["of"]
        if member["is"] in ("chain", "or")
    )


def _lazy_group_of_groups(canvas: Canvas) -> bool:
    return any(each.get("lazy") and any(map(ends_as_group, each["of"])) for each in within(canvas))


def _is_chain_of_a_group(canvas: Canvas) -> bool:
    chains = 0
    while canvas["is"] in ("chain", "or") and len(canvas["of"]) == 1:
        chains += canvas["is"] == "chain"
        canvas = canvas["of"][0]
    return chains > 0 and is_group(canvas)


def _given_to_a_chain_of_a_group(canvas: Canvas) -> bool:
    return (
        ("given" in canvas and _is_chain_of_a_group(canvas))
        or any(
            any(map(_is_chain_of_a_group, [*each["of"], each.get("body", each)]))
            for each in within(canvas)
            if each["is"] in ("group", "chord")
        )
        or any(
            any(map(_is_chain_of_a_group, each["of"][1:]))
            for each in within(canvas)
            if each["is"] in ("chain", "or")
        )
    )


def _replaced_by_groups(canvas: Canvas) -> bool:
    """Whether a task of a header is replaced by a chain that ends as a group behind a group."""
    return any(
        each["is"] == "task"
        and each["of"] == "become"
        and is_group(each["tag"])
        and each["tag"]["is"] in ("chain", "or")
        and is_chord(each["tag"])
        for header in within(canvas)
        if is_chord(header)
        for each in within(header)
    )


def _links_behind_a_chord(canvas: Canvas) -> bool:
    """Whether a chain that ends as a group behind a chord has links, and is in another chain."""
    return any(
        "links" in member and is_group(member) and is_chord(member)
        for each in within(canvas)
        if each["is"] in ("chain", "or")
        for member in each["of"]
        if member["is"] in ("chain", "or")
    )


def _header_behind_a_group_of_one(canvas: Canvas) -> bool:
    return any(
        len(first["of"]) == 1 and is_group(first) and is_group(second)
        for each in within(canvas)
        if each["is"] in ("chain", "or")
        for first, second in itertools.pairwise(each["of"])
    )


def _ignored(canvas: Canvas) -> bool:
    return any("ignored" in each for each in within(canvas))


def _ignored_at_the_end_of_a_header(canvas: Canvas) -> bool:
    """Whether a header has a chain or a chord in it that ends as a group with a task in it whose
    result is ignored."""
    return any(
        _ignored(member)
        for each in within(canvas)
        for member in members(each)
        if member["is"] in ("chain", "or", "chord") and ends_as_group(member)
    )


def _ignored_beside_the_end_of_a_header(canvas: Canvas) -> bool:
    """Whether there is a task whose result is ignored beside a chain or a chord that ends as a
    group, in a header."""
    return any(
        any(_ignored(member) for member in members(each))
        and any(
            ends_as_group(member)
            for member in members(each)
            if member["is"] in ("chain", "or", "chord")
        )
        for each in within(canvas)
        if each["is"] in ("chord", "group")
    )


def _joins_at_the_end_of_a_header(canvas: Canvas) -> bool:
    """Whether a task joins a header that is in a chain or a chord in another header, which ends
    as a group."""
    return any(
        one["of"] == "join"
        for each in within(canvas)
        for member in members(each)
        if member["is"] in ("chain", "or", "chord") and ends_as_group(member)
        for one in within(member)
    )


def _becomes_chains_of_nothing(canvas: Canvas) -> bool:
    return any(becomes_nothing(each) and each["tag"]["of"] for each in within(canvas))


def _joins_without_a_body(canvas: Canvas) -> bool:
    return any(
        each["is"] == "chord"
        and is_nothing(each["body"])
        and any(one["of"] == "join" for member in each["of"] for one in within(member))
        for each in within(canvas)
    )


def _behind_a_body_of_one(canvas: Canvas) -> bool:
    """Whether something is behind a chord whose body is a group of one."""
    return any(_counts(group) == 1 for group, _ in groups_behind(canvas))


def _behind_an_empty_body(canvas: Canvas) -> bool:
    return any(_counts(group) == 0 for group, _ in groups_behind(canvas))


def _counts(group: Canvas) -> int:
    if group["is"] == "chunks":
        return math.ceil(len(group["items"]) / CHUNK)
    return sum(not is_nothing(each) for each in members(group))


def _empty_chain_beside_one(canvas: Canvas) -> bool:
    return any(
        each["is"] == "group" and _counts(each) == 1 and len(each["of"]) > 1
        for each in within(canvas)
    )


def _becomes_a_linked_nothing(canvas: Canvas) -> bool:
    return any(
        each["of"] == "become"
        and any(is_nothing(one) and "links" in one for one in within(each["tag"]))
        for each in within(canvas)
    )


def _ignored_and_replaced(canvas: Canvas) -> bool:
    return any(each["of"] == "become" and "ignored" in each for each in within(canvas))


def _replaced_by_ignored(canvas: Canvas) -> bool:
    return any(
        each["of"] == "become" and _ignored(each["tag"])
        for each in within(canvas)
        if each["is"] == "task"
    )


def _immutable_group_of_chains(canvas: Canvas) -> bool:
    return any(
        ("immutable" in outer or "immutable" in member) and member["is"] in ("chain", "or")
        for outer in within(canvas)
        for each in within(outer)
        if each["is"] in ("group", "chord")
        for member in each["of"]
    )


def _keywords_for_an_immutable_chain(canvas: Canvas) -> bool:
    return "kwargs" in canvas.get("call", {}) and any(
        "immutable" in each and each["is"] in ("chain", "or") for each in within(canvas)
    )


def _keywords_for_a_chord(canvas: Canvas) -> bool:
    """Whether a chain that begins with several tasks is given keywords."""
    return "kwargs" in canvas.get("call", {}) and _begins_with_several(canvas)


def _begins_with_several(canvas: Canvas) -> bool:
    if canvas["is"] in ("group", "chord"):
        return any(map(_begins_with_several, canvas["of"]))
    if canvas["is"] not in ("chain", "or") or not canvas["of"]:
        return False
    first = canvas["of"][0]
    return first["is"] in ("chord", "group", "chunks") or _begins_with_several(first)


DIFFERENCES = [
    Difference(
        "canvases that are empty",
        {"is": "chord", "of": [], "body": {"is": "chain", "of": []}},
        _empty,
        leeways.cannot_apply,
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
        leeways.keywords_taken,
    ),
    Difference(
        "keywords for a chain that begins with a chord",
        {
            "is": "chain",
            "of": [{"is": "chord", "of": [_keep(1)], "body": _keep(2)}],
            "call": {"kwargs": {"k": 1}},
        },
        _keywords_for_a_chord,
        leeways.keywords,
    ),
    Difference(
        "replaced by a task whose result is ignored",
        {"is": "task", "of": "become", "tag": {**_keep(1), "ignored": True}},
        _replaced_by_ignored,
        leeways.replaced,
    ),
    Difference(
        "replaced by chains of nothing",
        {
            "is": "task",
            "of": "become",
            "tag": {"is": "chain", "of": [{"is": "chain", "of": []}]},
        },
        _becomes_chains_of_nothing,
        leeways.of_nothing,
    ),
    Difference(
        "replaced by an empty group with links",
        {
            "is": "task",
            "of": "become",
            "tag": {"is": "group", "of": [], "links": [_keep(1)]},
        },
        _becomes_a_linked_nothing,
        leeways.became_nothing,
    ),
    Difference(
        "an empty chain beside the only task of a group",
        {
            "is": "chord",
            "of": [
                {
                    "is": "chain",
                    "of": [
                        _keep(1),
                        {"is": "group", "of": [_keep(2), {"is": "chain", "of": []}]},
                    ],
                }
            ],
            "body": _keep(3),
        },
        _empty_chain_beside_one,
        leeways.parent_of_one,
    ),
    Difference(
        "behind a chord whose body is a group of one",
        {
            "is": "chain",
            "of": [
                {"is": "chord", "of": [_keep(1)], "body": {"is": "group", "of": [_keep(2)]}},
                {"is": "chord", "of": [_keep(3), _keep(4)], "body": _keep(5)},
            ],
        },
        _behind_a_body_of_one,
        leeways.one_of_one,
    ),
    Difference(
        "tasks that join a header without a body",
        {
            "is": "chord",
            "of": [{**_keep(1), "of": "join"}, _fail(2)],
            "body": {"is": "group", "of": []},
        },
        _joins_without_a_body,
        leeways.added,
    ),
    Difference(
        "an ignored task replaced by one that is not",
        {
            "is": "chain",
            "of": [{"is": "task", "of": "become", "tag": _keep(1), "ignored": True}, _keep(2)],
        },
        _ignored_and_replaced,
        leeways.dropped,
    ),
    Difference(
        "results that are ignored",
        {"is": "chain", "of": [{**_keep(1), "ignored": True}, _keep(2)]},
        _ignored,
        leeways.ignored,
    ),
    Difference(
        "ignored results at the end of a header",
        {
            "is": "chord",
            "of": [
                {
                    "is": "chain",
                    "of": [
                        _keep(1),
                        {"is": "group", "of": [{**_keep(2), "ignored": True}, _keep(3)]},
                    ],
                },
                _keep(4),
            ],
            "body": _keep(5),
        },
        _ignored_at_the_end_of_a_header,
        leeways.hangs,
    ),
    Difference(
        "ignored results beside the end of a header",
        {
            "is": "chord",
            "of": [
                {
                    "is": "chord",
                    "of": [_keep(1)],
                    "body": {"is": "group", "of": [_keep(2), _keep(3)]},
                },
                {**_keep(4), "ignored": True},
            ],
            "body": _keep(5),
        },
        _ignored_beside_the_end_of_a_header,
        leeways.not_handed_on,
    ),
    Difference(
        "what fails before the end of a header",
        {
            "is": "chord",
            "of": [
                _keep(1),
                {
                    "is": "or",
                    "of": [
                        _fail(2),
                        {
                            "is": "chord",
                            "of": [_keep(3)],
                            "body": {"is": "group", "of": [_keep(4)]},
                        },
                    ],
                },
            ],
            "body": _keep(5),
        },
        _fails_before_the_end_of_a_header,
        leeways.hangs_where_it_fails,
    ),
    Difference(
        "a chord with a group that is immutable",
        {
            "is": "group",
            "of": [{"is": "chord", "of": [_keep(1), _keep(2)], "body": _keep(3), "visitor": "red"}],
            "immutable": True,
        },
        _immutable_chord,
        leeways.cannot_be_immutable,
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
        leeways.never_got,
    ),
    Difference(
        "nothing in a header from a generator",
        {"is": "chord", "of": [{"is": "chain", "of": []}], "body": _keep(1), "lazy": True},
        _lazy_header_with_nothing,
        leeways.never_ends,
    ),
    Difference(
        "a header of chords that end in nothing",
        {
            "is": "chord",
            "of": [{"is": "chord", "of": [_keep(1)], "body": {"is": "group", "of": []}}],
            "body": _keep(2),
        },
        _header_of_nothing,
        leeways.never_ends,
    ),
    Difference(
        "behind a chord whose body is an empty group",
        {
            "is": "chain",
            "of": [
                {"is": "chord", "of": [_keep(1)], "body": {"is": "group", "of": []}},
                {"is": "chord", "of": [_keep(2)], "body": _keep(3)},
            ],
        },
        _behind_an_empty_body,
        leeways.never_ends,
    ),
    Difference(
        "a failed chord that ends in nothing",
        {
            "is": "chord",
            "of": [
                {"is": "chord", "of": [_fail(1)], "body": {"is": "group", "of": []}},
                _keep(2),
            ],
            "body": _keep(3),
        },
        _fails_before_nothing,
        leeways.unnoticed,
    ),
    Difference(
        "what is behind a chord whose body is a group",
        {
            "is": "chain",
            "of": [
                {
                    "is": "chord",
                    "of": [_keep(1)],
                    "body": {"is": "group", "of": [_keep(2), _keep(3)]},
                },
                {"is": "chord", "of": [_keep(4)], "body": _keep(5)},
            ],
        },
        _behind_groups_behind,
        leeways.several_times,
    ),
    Difference(
        "stamps that are keywords reach the body of a chord",
        {"is": "chord", "of": [_keep(1)], "body": _keep(2), "stamp": "red"},
        _stamped_chord,
        leeways.stamps,
    ),
    Difference(
        "stamps by a visitor reach chords that are links",
        {
            "is": "chord",
            "of": [_keep(1)],
            "body": {
                "is": "or",
                "of": [
                    _keep(2),
                    {**_keep(3), "links": [{"is": "chord", "of": [_keep(4)], "body": _keep(5)}]},
                    _keep(6),
                ],
            },
            "visitor": "red",
        },
        _visited_chord_as_link,
        leeways.visitor_stamps,
    ),
    Difference(
        "callbacks behind an empty header",
        {
            "is": "chord",
            "of": [_keep(1), _fail(2)],
            "body": {
                "is": "group",
                "of": [
                    {
                        "is": "chord",
                        "of": [{"is": "task", "of": "become", "tag": _keep(3), "args": ["p"]}],
                        "body": {**_fail(4), "args": [[1]]},
                    },
                    {
                        "is": "chord",
                        "of": [],
                        "body": {**_fail(5), "args": ["p"]},
                        "lazy": True,
                        "errbacks": ["new"],
                    },
                ],
                "lazy": True,
            },
        },
        _callbacks_beside_empty_header,
        leeways.fewer_callbacks,
    ),
    Difference(
        "callbacks of what a failed chord keeps from running",
        {
            "is": "chord",
            "of": [{"is": "chord", "of": [_fail(1)], "body": _keep(2)}],
            "body": {**_keep(3), "errbacks": ["old"]},
        },
        _failing_chord,
        leeways.callbacks_behind,
    ),
    Difference(
        "what cannot run has failed",
        {"is": "chain", "of": [_fail(1), {"is": "group", "of": [_keep(2), _keep(3)]}]},
        _fails,
        leeways.never_ran,
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
        leeways.pending_header,
    ),
    Difference(
        "groups in groups keep their order",
        {"is": "chord", "of": [{"is": "group", "of": [_keep(1), _keep(2)]}], "body": _keep(3)},
        _group_in_header,
        leeways.order,
    ),
    Difference(
        "tasks that join a header come last",
        {"is": "chord", "of": [{**_keep(1), "of": "join"}, _keep(2)], "body": _keep(3)},
        lambda canvas: any(each["of"] == "join" for each in within(canvas)),
        leeways.order,
    ),
    Difference(
        "tasks that join the end of a header",
        {
            "is": "chord",
            "of": [
                {
                    "is": "chain",
                    "of": [_keep(1), {"is": "group", "of": [{**_keep(2), "of": "join"}, _keep(3)]}],
                },
                _keep(4),
            ],
            "body": _keep(5),
        },
        _joins_at_the_end_of_a_header,
        leeways.joined,
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
        leeways.wording,
    ),
    Difference(
        "which of several errors is raised",
        {"is": "chord", "of": [{"is": "group", "of": [_fail(1), _fail(2)]}], "body": _keep(3)},
        _fail_several,
        leeways.which_error,
    ),
    Difference(
        "links of a chain that is all of another one",
        {"is": "chain", "of": [{"is": "chain", "of": [_fail(1)], "errbacks": ["new"]}]},
        _links_of_lone_chain,
        leeways.links,
    ),
    Difference(
        "groups from a generator that are in groups",
        {
            "is": "chord",
            "of": [],
            "body": {"is": "group", "of": [{"is": "group", "of": [_keep(1)]}], "lazy": True},
        },
        _lazy_group_of_groups,
        leeways.flat,
    ),
    Difference(
        "replaced by a group behind a group",
        {
            "is": "chord",
            "of": [
                {
                    "is": "task",
                    "of": "become",
                    "tag": {
                        "is": "or",
                        "of": [
                            {"is": "group", "of": [_keep(1)]},
                            {"is": "group", "of": [_keep(2)]},
                        ],
                    },
                },
                _keep(3),
            ],
            "body": _keep(4),
        },
        _replaced_by_groups,
        leeways.never_ends,
    ),
    Difference(
        "links of a chain that ends as a group behind a chord",
        {
            "is": "chain",
            "of": [
                _keep(1),
                {
                    "is": "chain",
                    "of": [
                        {"is": "chord", "of": [_keep(2)], "body": _keep(3)},
                        {"is": "group", "of": [_keep(4), _keep(5)]},
                    ],
                    "links": [_keep(6)],
                },
            ],
        },
        _links_behind_a_chord,
        leeways.cannot_link,
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
        leeways.taken,
    ),
    Difference(
        "arguments of a chain that is one group",
        {
            "is": "chain",
            "of": [{"is": "group", "of": [_keep(1), _keep(2)]}],
            "given": ["p"],
        },
        _given_to_a_chain_of_a_group,
        leeways.given,
    ),
]
