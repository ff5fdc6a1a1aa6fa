"""Groups within groups, and what is behind groups."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from tests.differential.agreeing import Agreement, Leeway, Run, paired
from tests.differential.canvases import Canvas
from tests.differential.headers import body_of
from tests.differential.reading import (
    alone,
    behind_groups_behind,
    ends_as_group,
    group_at_the_end,
    groups_behind,
    is_group,
    is_nothing,
    members,
    runs_of,
    within,
)

from .difference import Difference, keep
from .shared import (
    CALLBACKS,
    SAID,
    counts,
    has_failed,
    is_pending,
    order,
    told,
    went_on,
    without,
)


def _group_in_header(canvas: Canvas) -> bool:
    return any(any(is_group(member) for member in members(each)) for each in within(canvas))


def _behind_groups_behind(canvas: Canvas) -> bool:
    return bool(behind_groups_behind(canvas))


def _lazy_group_of_groups(canvas: Canvas) -> bool:
    return any(
        ends_as_group(_with_tasks(member))
        for each in within(canvas)
        if each.get("lazy")
        for inner in within(each)
        if inner["is"] in ("group", "chord")
        for member in inner["of"]
    )


def _group_in_a_group_alone(canvas: Canvas) -> bool:
    """Whether a chain is nothing but a group beside nothing in a group, or a chord with nothing
    else in its header: something that ends as a group, and nothing else that has tasks."""
    return any(
        counts({**group, "is": "group"}) == 1
        and any(map(ends_as_group, group["of"]))
        and (group["is"] == "chord" or len(group["of"]) > 1)
        for each in within(canvas)
        if each["is"] == "chain" and len(each["of"]) == 1
        for group in map(alone, each["of"])
        if group["is"] in ("group", "chord")
    )


def _with_tasks(canvas: Canvas) -> Canvas:
    """A chain without those of its steps that are nothing."""
    if canvas["is"] not in ("chain", "or"):
        return canvas
    return {**canvas, "of": [step for step in canvas["of"] if not is_nothing(step)]}


def _header_behind_a_group_of_one(canvas: Canvas) -> bool:
    """Whether a header is behind a group of one, behind a chord with a header of one, or behind a
    chain that ends as a group."""
    return any(
        (
            (len(first["of"]) == 1 and (is_group(first) or first["is"] == "chord"))
            or (first["is"] in ("chain", "or") and is_group(first))
        )
        and is_group(second)
        for each in within(canvas)
        if each["is"] in ("chain", "or")
        for first, second in itertools.pairwise(each["of"])
    )


def _header_in_a_group(canvas: Canvas) -> bool:
    """Whether a chain within a group has a header that a group follows, behind what is no group."""
    return any(
        not is_nothing(first) and not is_group(first) and is_group(header) and is_group(body)
        for each in within(canvas)
        if each["is"] in ("group", "chord")
        for member in members(each)
        for chain in within(member)
        if chain["is"] in ("chain", "or")
        for first, header, body in zip(chain["of"], chain["of"][1:], chain["of"][2:], strict=False)
    )


def _behind_a_body_of_one(canvas: Canvas) -> bool:
    """Whether something is behind a chord whose body is a group of one, or a group is behind a task
    that is replaced by one."""
    return any(counts(group) == 1 for group, _ in groups_behind(canvas)) or any(
        before["of"] == "become" and is_group(behind) and _ends_as_body_of_one(before["tag"])
        for each in within(canvas)
        if each["is"] in ("chain", "or")
        for before, behind in itertools.pairwise(each["of"])
    )


def _ends_as_body_of_one(canvas: Canvas) -> bool:
    body = body_of(canvas)
    return body is not None and ends_as_group(body[-1]) and counts(group_at_the_end(body[-1])) == 1


def _one_of_several(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery hands on what one task of a group gives, here that is the list of them all."""
    if not isinstance(theirs, list) or not isinstance(ours, list) or len(theirs) != len(ours):
        return False
    if len(ours) < 2 or not isinstance(ours[0], list):
        return False
    return (
        any(
            json.dumps(ours[-1:], ensure_ascii=False) == own
            for _, own in both.about(_behind_groups)
        )
        and any(both.same(theirs[0], one) for one in ours[0])
        and both.in_turn(theirs[1:], ours[1:])
    )


def _failed_later(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery has gone on until something behind has failed, where a task cannot run here."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict) or not has_failed(both, ours):
        return False
    said = [
        repr((SAID[of], *json.loads(own))) for of, own in both.about(_behind_groups) if of in SAID
    ]
    return any(each in str(theirs.get("error")) for each in said) and both.same(
        without(theirs, "error"), without(ours, "error")
    )


def _waits_here(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery has gone on behind a group in which a task has no result, since another one has: here
    all that is behind waits for it."""
    if not is_pending(ours) or not isinstance(theirs, dict) or not _has_skipped(both):
        return False
    return both.same(without(theirs, "value", "error"), without(ours, "state"))


def _has_skipped(both: Agreement) -> bool:
    return any(json.loads(line)[0] == "skip" for line in both.ours["ran"])


def _is_behind_group(both: Agreement, run: Run) -> bool:
    """Whether it is of a task that Celery runs once for each task of the group before, or of a
    callback of one."""
    behind = both.about(_behind_groups)
    if run[0] not in CALLBACKS:
        return told(run) in behind
    return run[1][0] in {"fixed", "<id>", *(f"<{name}:{own}>" for name, own in behind)}


def _behind_groups(canvas: Canvas) -> set[tuple[str, str]]:
    return runs_of(behind_groups_behind(canvas))


def _pending_header(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery gives results with ids that no task of the header has."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict) or "group" not in ours:
        return False
    pending = theirs.get("group") or ()
    ended = all("value" in each or "error" in each for each in ours["group"] if "group" not in each)
    rest = without(theirs, "group"), without(ours, "group")
    return bool(pending) and all(map(is_pending, pending)) and ended and both.same(*rest)


def _when_flat(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery has a group in a group where here its tasks are."""
    if (
        isinstance(theirs, dict)
        and isinstance(ours, dict)
        and "group" in theirs
        and "group" in ours
    ):
        whole = (
            {**theirs, "group": list(_unnested(theirs))},
            {**ours, "group": list(_unnested(ours))},
        )
        if whole != (theirs, ours) and both.same(*whole):
            return True
    if _are_lists(theirs) and _are_lists(ours):  # what their tasks have given
        there, here = list(_spliced(theirs)), list(_spliced(ours))
        return len(there) == len(here) == len(paired(there, here, both.same))
    return sorted(map(json.dumps, _leaves(theirs))) == sorted(map(json.dumps, _leaves(ours)))


def _are_lists(values: Any) -> bool:
    return (
        isinstance(values, list)
        and len(values) > 0
        and all(isinstance(one, list) for one in values)
    )


def _spliced(values: list[Any]) -> Iterator[Any]:
    """What the tasks of a group have given, with those of groups in it in their place."""
    for each in values:
        if _are_lists(each):
            yield from _spliced(each)
        else:
            yield each


def _unnested(result: dict[str, Any]) -> Iterator[Any]:
    """The tasks of a group, with those of groups in it that wait for nothing."""
    for each in result["group"]:
        if each.keys() == {"group"}:
            yield from _unnested(each)
        else:
            yield each


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict) and "group" in value:
        return _leaves(value["group"]) + _leaves(value.get("parent", []))
    if isinstance(value, dict):
        return [
            leaf
            for key in sorted(value)
            for leaf in ([] if key == "parent" else [key]) + _leaves(value[key])
        ]
    if isinstance(value, list):
        return [leaf for each in value for leaf in _leaves(each)]
    return [value]


def _one_of_one(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery hands on the result of a group of one, here that is a list."""
    return isinstance(ours, list) and len(ours) == 1 and both.same(theirs, ours[0])


several_times = Leeway(
    node=lambda both, theirs, ours: (
        _one_of_several(both, theirs, ours)
        or went_on(both, theirs, ours)
        or _failed_later(both, theirs, ours)
        or _waits_here(both, theirs, ours)
    ),
    got=lambda both, _, ours: (
        has_failed(both, ours) or (ours == "not ready" and _has_skipped(both))
    ),
    fewer=_is_behind_group,
)
pending_header = Leeway(node=_pending_header)
one_of_one = Leeway(node=_one_of_one)
flat = Leeway(node=_when_flat)


DIFFERENCES = [
    Difference(
        "behind a chord whose body is a group of one",
        {
            "is": "chain",
            "of": [
                {"is": "chord", "of": [keep(1)], "body": {"is": "group", "of": [keep(2)]}},
                {"is": "chord", "of": [keep(3), keep(4)], "body": keep(5)},
            ],
        },
        _behind_a_body_of_one,
        one_of_one,
    ),
    Difference(
        "what is behind a chord whose body is a group",
        {
            "is": "chain",
            "of": [
                {
                    "is": "chord",
                    "of": [keep(1)],
                    "body": {"is": "group", "of": [keep(2), keep(3)]},
                },
                {"is": "chord", "of": [keep(4)], "body": keep(5)},
            ],
        },
        _behind_groups_behind,
        several_times,
    ),
    Difference(
        "results of a header behind a group of one",
        {
            "is": "group",
            "of": [
                {
                    "is": "chain",
                    "of": [
                        {"is": "group", "of": [keep(1)]},
                        {"is": "group", "of": [keep(2), keep(3)]},
                        {"is": "group", "of": [keep(4), keep(5)]},
                    ],
                },
                keep(6),
            ],
        },
        _header_behind_a_group_of_one,
        pending_header,
    ),
    Difference(
        "results of a header in a chain that is in a group",
        {
            "is": "group",
            "of": [
                {
                    "is": "chain",
                    "of": [
                        keep(1),
                        {"is": "group", "of": [keep(2), keep(3)]},
                        {"is": "group", "of": [keep(4), keep(5)]},
                    ],
                },
                keep(6),
            ],
        },
        _header_in_a_group,
        pending_header,
    ),
    Difference(
        "groups in groups keep their order",
        {"is": "chord", "of": [{"is": "group", "of": [keep(1), keep(2)]}], "body": keep(3)},
        _group_in_header,
        order,
    ),
    Difference(
        "groups from a generator that are in groups",
        {
            "is": "chord",
            "of": [],
            "body": {"is": "group", "of": [{"is": "group", "of": [keep(1)]}], "lazy": True},
        },
        _lazy_group_of_groups,
        flat,
    ),
    Difference(
        "a group alone in a group, in a chain of its own",
        {
            "is": "chain",
            "of": [
                {
                    "is": "group",
                    "of": [
                        {"is": "chain", "of": [{"is": "group", "of": [keep(1), keep(2)]}]},
                        {"is": "chain", "of": []},
                    ],
                }
            ],
        },
        _group_in_a_group_alone,
        flat,
    ),
]
