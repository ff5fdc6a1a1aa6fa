"""What is meant to differ (docs/celery/differences.md), as narrow as it can be said.

A difference says to which canvases it applies, and what of the outcomes is then left out of the
comparison: everything else still has to be the same.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .canvases import Canvas
from .observed import Outcome

Pair = tuple[Outcome, Outcome]

SEVERAL = ("chain", "or", "group", "chord")
CHORD_ERROR = re.compile(r"ChordError: (Join error: |Dependency <\S*> raised )")
CALLBACKS = ("note", "told")
FAILING = ("fail", "trouble", "stubborn")


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
        theirs, ours = difference.leave_out(theirs, ours)
    return theirs == ours


# -- reading canvases ----------------------------------------------------------------------------


def within(canvas: Canvas) -> Iterator[Canvas]:
    """A canvas and all that are in it."""
    yield canvas
    for key in ("of", "links", "body", "tag"):
        inner = canvas.get(key)
        for each in inner if isinstance(inner, list) else [inner]:
            if isinstance(each, dict):
                yield from within(each)


def members(canvas: Canvas) -> list[Canvas]:
    return canvas["of"] if canvas["is"] in SEVERAL else []


def is_nothing(canvas: Canvas) -> bool:
    """Whether no task is in it."""
    if canvas["is"] == "chunks":
        return not len(canvas["items"])
    kind: str = canvas["is"]
    return kind in ("chain", "or", "group") and all(map(is_nothing, canvas["of"]))


def is_group(canvas: Canvas) -> bool:
    """Whether it is a group, or ends as one."""
    if canvas["is"] in ("chain", "or") and canvas["of"]:
        return is_group(canvas["of"][-1])
    kind: str = canvas["is"]
    return kind in ("group", "chunks")


def fails(canvas: Canvas) -> bool:
    return any(each["is"] == "task" and each["of"] in FAILING for each in within(canvas))


def fail_several(canvas: Canvas) -> bool:
    failing = [each for each in within(canvas) if each["is"] == "task" and each["of"] in FAILING]
    return len(failing) > 1


# -- what is left out ----------------------------------------------------------------------------


def everything(theirs: Outcome, ours: Outcome) -> Pair:
    return {}, {}


def order(theirs: Outcome, ours: Outcome) -> Pair:
    return _in_order(theirs), _in_order(ours)


def _in_order(value: Any) -> Any:
    if isinstance(value, list):
        return sorted(map(_in_order, value), key=json.dumps)
    if isinstance(value, dict):
        return {key: _in_order(each) for key, each in value.items()}
    if isinstance(value, str) and value.startswith("["):  # of what ran
        return json.dumps(_in_order(json.loads(value)))
    return value


def parents(theirs: Outcome, ours: Outcome) -> Pair:
    return _without_parents(theirs), _without_parents(ours)


def _without_parents(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_parents(each) for each in value]
    if isinstance(value, dict):
        return {key: _without_parents(each) for key, each in value.items() if key != "parent"}
    return value


def never_ends(theirs: Outcome, ours: Outcome) -> Pair:
    """Celery never ends: what it did, was done here too."""
    left = list(theirs.get("ran") or ())
    for line in ours.get("ran") or ():
        _taken(line, left)
    stuck = theirs.get("get") == "not ready" and ours.get("get") != "not ready"
    return ({}, {}) if stuck and not left else (theirs, ours)


def never_ran(theirs: Outcome, ours: Outcome) -> Pair:
    """Celery leaves them pending, here they have failed."""
    found = {**theirs, "result": _as_failed(theirs.get("result"), ours.get("result"))}
    if theirs.get("get") == "not ready" and "error" in (ours.get("get") or {}):
        found["get"] = ours["get"]
    return found, ours


def _as_failed(theirs: Any, ours: Any) -> Any:
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return [_as_failed(*pair) for pair in zip(theirs, ours, strict=True)]
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return theirs
    if theirs.get("state") == "PENDING" and "error" in ours:
        theirs = {"error": ours["error"], **{k: v for k, v in theirs.items() if k != "state"}}
    return {key: _as_failed(value, ours.get(key)) for key, value in theirs.items()}


def callbacks_behind(theirs: Outcome, ours: Outcome) -> Pair:
    """Here the callbacks of what cannot run are called."""
    left = list(theirs.get("ran") or ())
    more = [line for line in ours.get("ran") or () if not _taken(line, left)]
    if not left and all(json.loads(line)[0] in CALLBACKS for line in more):
        return theirs, {**ours, "ran": theirs.get("ran")}
    return theirs, ours


def _taken(line: str, left: list[str]) -> bool:
    if line in left:
        left.remove(line)
        return True
    return False


def callbacks(theirs: Outcome, ours: Outcome) -> Pair:
    return _without_callbacks(theirs), _without_callbacks(ours)


def _without_callbacks(outcome: Outcome) -> Outcome:
    lines = outcome.get("ran") or []
    return {**outcome, "ran": [each for each in lines if json.loads(each)[0] not in CALLBACKS]}


def stamps(theirs: Outcome, ours: Outcome) -> Pair:
    return _without_stamps(theirs), _without_stamps(ours)


def _without_stamps(outcome: Outcome) -> Outcome:
    lines = [json.loads(each) for each in outcome.get("ran") or ()]
    kept = [
        [each for each in line if not (isinstance(each, dict) and "stamps" in each)]
        for line in lines
    ]
    return {**outcome, "ran": sorted(map(json.dumps, kept))}


def pending_header(theirs: Outcome, ours: Outcome) -> Pair:
    """Celery gives results with ids that no task of the header has."""
    return {**theirs, "result": _as_found(theirs.get("result"), ours.get("result"))}, ours


def _as_found(theirs: Any, ours: Any) -> Any:
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        return [_as_found(*pair) for pair in zip(theirs, ours, strict=True)]
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return theirs
    found = {key: _as_found(value, ours.get(key)) for key, value in theirs.items()}
    above = theirs.get("parent")
    if above and all(each.get("state") == "PENDING" for each in above.get("group") or [{}]):
        found["parent"] = {**found["parent"], "group": (ours.get("parent") or {}).get("group")}
    return found


def which_error(theirs: Outcome, ours: Outcome) -> Pair:
    """Several tasks fail: which of their errors is told."""
    return _without_errors(theirs), _without_errors(ours)


def _without_errors(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: "an error" if key == "error" else _without_errors(each)
            for key, each in value.items()
        }
    if isinstance(value, list):
        return [_without_errors(each) for each in value]
    if isinstance(value, str) and value.startswith('["told"'):
        name, (failed, _, *own) = json.loads(value)[:2]
        return json.dumps([name, failed, own])
    return value


def wording(theirs: Outcome, ours: Outcome) -> Pair:
    """Of a `ChordError`, what it says beside the error of the task."""
    return _reworded(theirs), _reworded(ours)


def _reworded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _reworded(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_reworded(each) for each in value]
    return CHORD_ERROR.sub("", value) if isinstance(value, str) else value


# -- the differences -----------------------------------------------------------------------------


def _keep(tag: int) -> Canvas:
    return {"is": "task", "of": "keep", "tag": tag}


def _fail(tag: int) -> Canvas:
    return {"is": "task", "of": "fail", "tag": tag}


def _group_in_header(canvas: Canvas) -> bool:
    return any(any(is_group(member) for member in members(each)) for each in within(canvas))


def _empty_header(canvas: Canvas) -> bool:
    return any(
        is_nothing(member)
        for each in within(canvas)
        if each["is"] in ("chord", "chain", "or")
        for member in ({**each, "is": "group"}, *each["of"])
    )


def _body_of_nothing(canvas: Canvas) -> bool:
    return any(each["is"] == "chord" and is_nothing(each["body"]) for each in within(canvas))


def _failing_chord(canvas: Canvas) -> bool:
    return fails(canvas) and any(map(is_chord, within(canvas)))


def _failing_chord_of_groups(canvas: Canvas) -> bool:
    """Whether a header has a chord in it that ends as a group."""
    return fails(canvas) and any(
        each["is"] == "chord" and is_group(each["body"]) for each in within(canvas)
    )


def is_chord(canvas: Canvas) -> bool:
    """Whether there is a group in it that something waits for."""
    if canvas["is"] in ("chain", "or"):
        return any(is_group(member) or is_chord(member) for member in canvas["of"])
    kind: str = canvas["is"]
    return kind == "chord"


def _callbacks_beside_empty_header(canvas: Canvas) -> bool:
    return _empty_header(canvas) and any("errbacks" in each for each in within(canvas))


def _stamped_chord(canvas: Canvas) -> bool:
    return any("stamp" in each and any(map(is_chord, within(each))) for each in within(canvas))


def _lazy_header_with_nothing(canvas: Canvas) -> bool:
    return any(
        is_chord(each) and each.get("lazy") and any(map(is_nothing, members(each)))
        for each in within(canvas)
    )


def _link_of_nothing(canvas: Canvas) -> bool:
    return any(
        is_nothing(each) and ("links" in each or "errbacks" in each) for each in within(canvas)
    ) or any(
        each["is"] == "group"
        and any(member["is"] == "chain" and is_nothing(member) for member in each["of"])
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
    return (
        "given" in canvas
        and canvas["is"] == "chain"
        and len(canvas["of"]) == 1
        and is_group(canvas["of"][0])
    )


def _header_behind_a_group_of_one(canvas: Canvas) -> bool:
    return any(
        len(first["of"]) == 1 and is_group(first) and is_group(second)
        for each in within(canvas)
        if each["is"] in ("chain", "or")
        for first, second in itertools.pairwise(each["of"])
    )


DIFFERENCES = [
    Difference(
        "nothing in a header from a generator",
        {"is": "chord", "of": [{"is": "chain", "of": []}], "body": _keep(1), "lazy": True},
        _lazy_header_with_nothing,
        never_ends,
    ),
    Difference(
        "stamps that are keywords reach the body of a chord",
        {"is": "chord", "of": [_keep(1)], "body": _keep(2), "stamp": "red"},
        _stamped_chord,
        stamps,
    ),
    Difference(
        "the parents of what is behind an empty header",
        {
            "is": "chain",
            "of": [
                {
                    "is": "chord",
                    "of": [],
                    "body": {"is": "chunks", "of": "keep", "items": [[0], [7]]},
                },
                _keep(3),
            ],
            "given": ["p"],
        },
        _empty_header,
        parents,
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
        callbacks,
    ),
    Difference(
        "callbacks of what a failed chord keeps from running",
        {
            "is": "chord",
            "of": [{"is": "chord", "of": [_fail(1)], "body": _keep(2)}],
            "body": {**_keep(3), "errbacks": ["old"]},
        },
        _failing_chord,
        callbacks_behind,
    ),
    Difference(
        "what cannot run has failed",
        {"is": "chain", "of": [_fail(1), {"is": "group", "of": [_keep(2), _keep(3)]}]},
        fails,
        never_ran,
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
        pending_header,
    ),
    Difference(
        "groups in groups keep their order",
        {"is": "chord", "of": [{"is": "group", "of": [_keep(1), _keep(2)]}], "body": _keep(3)},
        _group_in_header,
        order,
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
        wording,
    ),
    Difference(
        "which of several errors is raised",
        {"is": "chord", "of": [{"is": "group", "of": [_fail(1), _fail(2)]}], "body": _keep(3)},
        fail_several,
        which_error,
    ),
    Difference(
        "links of nothing, and nothing in a group",
        {"is": "group", "of": [], "links": [_keep(1)]},
        _link_of_nothing,
        everything,
    ),
    Difference(
        "links of a chain that is all of another one",
        {"is": "chain", "of": [{"is": "chain", "of": [_fail(1)], "errbacks": ["new"]}]},
        _links_of_lone_chain,
        everything,
    ),
    Difference(
        "groups from a generator that are in groups",
        {
            "is": "chord",
            "of": [],
            "body": {"is": "group", "of": [{"is": "group", "of": [_keep(1)]}], "lazy": True},
        },
        _lazy_group_of_groups,
        everything,
    ),
    Difference(
        "a body without a task",
        {"is": "chord", "of": [], "body": {"is": "chain", "of": []}},
        _body_of_nothing,
        everything,
    ),
    Difference(
        "arguments of a chain that is one group",
        {
            "is": "chain",
            "of": [{"is": "group", "of": [_keep(1), _keep(2)]}],
            "given": ["p"],
        },
        _given_to_a_lone_group,
        everything,
    ),
]
