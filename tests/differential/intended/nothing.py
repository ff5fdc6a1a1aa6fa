"""Groups, chains and headers without tasks."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from tests.differential.agreeing import Agreement, Leeway, Run
from tests.differential.canvases import Canvas
from tests.differential.headers import headers
from tests.differential.reading import (
    alone,
    becomes_nothing,
    chained,
    groups_behind,
    headers_with_lost_ends,
    is_empty_chain,
    is_nothing,
    runs_of,
    within,
)

from .difference import Difference, become, fail, keep
from .shared import (
    CALLBACKS,
    EMPTY,
    EMPTY_CHAIN,
    counts,
    ends,
    has_failed,
    never_ends,
    never_started,
    told,
    went_on,
    without,
)

INDEX_ERROR = re.compile(r"""IndexError(: |\(\\?['"])list index out of range(\\?['"]\))?""")
WRONG_CALL = re.compile(
    r"TypeError: Cannot add link to group: (do that on individual tasks|use a chord)"
    r"|AttributeError: '(str|int|list)' object has no attribute 'clone'"
)
"""What a call of a group with links raises, and that of a chord with something else than a body."""


def _empty(canvas: Canvas) -> bool:
    return any(map(is_nothing, within(canvas)))


def _empty_header(canvas: Canvas) -> bool:
    return any(
        is_nothing(member)
        for each in within(canvas)
        if each["is"] in ("chord", "chain", "or")
        for member in ({**each, "is": "group"}, *each["of"])
    )


def _fails_before_nothing(canvas: Canvas) -> bool:
    """Whether something may fail in a header before a chord in another one that ends in nothing."""
    return bool(headers_with_lost_ends(canvas))


def _becomes_chains_of_nothing(canvas: Canvas) -> bool:
    return any(becomes_nothing(each) and each["tag"]["of"] for each in within(canvas))


def _behind_an_empty_body(canvas: Canvas) -> bool:
    return any(counts(group) == 0 for group, _ in groups_behind(canvas))


def _behind_what_cannot_start(canvas: Canvas) -> list[Canvas]:
    """What tasks start that has something empty in it, all that is behind that, and what a task
    before is to be replaced by."""
    started = [link for each in within(canvas) for link in _links(each)]
    started += canvas.get("call", {}).get("links", [])
    started += [each["tag"] for each in within(canvas) if each["of"] == "become"]
    started += [each["body"] for each in within(canvas) if each["is"] == "chord"]
    found = [each for each in started if _has_something_empty(each)]
    for each in within(canvas):
        steps = chained(each)
        for number, step in enumerate(steps):
            if _has_something_empty(step):
                before = [each for each in steps[:number] if each["of"] == "become"]
                found += [each["tag"] for each in before[:1]]
                found += steps[steps.index(before[0]) + 1 if before else number :]
    return found


def _has_something_empty(canvas: Canvas) -> bool:
    """Whether it has a chain of an empty chain in a group, or a chord whose body is one."""
    return any(
        _is_chord_of_nothing(one)
        or (one["is"] == "group" and any(map(_is_chain_of_nothing, one["of"])))
        for one in within(canvas)
    )


def _is_chord_of_nothing(canvas: Canvas) -> bool:
    """Of a chord, or of a group of several and what is behind it."""
    if canvas["is"] == "chord":
        return is_empty_chain(canvas["body"])
    if canvas["is"] not in ("chain", "or") or not canvas["of"]:
        return False
    found = chained(canvas)
    return (
        len(found) == 1
        and found[0]["is"] in ("group", "chunks")
        and counts(found[0]) > 1
        and is_empty_chain(canvas["of"][-1])
    )


def _is_chain_of_nothing(canvas: Canvas) -> bool:
    return is_empty_chain(alone(canvas)) and len(alone(canvas)["of"]) > 0


def _errbacks_of_an_empty_body(canvas: Canvas) -> bool:
    """Whether the body of a chord is a chain of an empty group, and it or the chord has some."""
    return any(
        each["is"] == "chord"
        and each["body"]["is"] == "chain"
        and is_nothing(each["body"])
        and not is_empty_chain(each["body"])
        and ("errbacks" in each or "errbacks" in each["body"])
        for each in within(canvas)
    )


def _is_without_id(run: Run) -> bool:
    """Whether it is an error callback that is told of no task that ran."""
    return run[0] in CALLBACKS and run[1][0] in {"<id>", "fixed"}


def _empty_chain_beside_one(canvas: Canvas) -> bool:
    return any(
        each["is"] == "group" and counts(each) == 1 and len(each["of"]) > 1
        for each in within(canvas)
    )


def _group_of_nothing_at_the_end(canvas: Canvas) -> bool:
    return any(
        each["is"] in ("chain", "or")
        and each["of"][-1]["is"] == "group"
        and is_nothing(each["of"][-1])
        for each in within(canvas)
        if each["of"]
    )


def _without_parent(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery does not tell what is before a group without tasks."""
    return theirs == {"group": []} and isinstance(ours, dict) and without(ours, "parent") == theirs


def _becomes_a_linked_nothing(canvas: Canvas) -> bool:
    return any(map(_is_linked_nothing, within(canvas)))


def _is_linked_nothing(task: Canvas) -> bool:
    return task["of"] == "become" and any(
        is_nothing(one) and "links" in one for one in within(task["tag"])
    )


def _behind_linked_nothing(canvas: Canvas) -> set[tuple[str, str]]:
    """What is linked to such a task, or behind a header in which one is."""
    behind = [link for each in within(canvas) if _is_linked_nothing(each) for link in _links(each)]
    for header in headers(canvas):
        if any(_is_linked_nothing(one) for each in header.members for one in within(each)):
            behind += header.behind
    return runs_of(behind)


def _links(canvas: Canvas) -> list[Canvas]:
    found: list[Canvas] = canvas.get("links", [])
    return found


def _cannot_apply(both: Agreement) -> bool:
    """Celery cannot apply it, since something in it is empty; here it can be, and ends, or has
    another error that Celery has of such calls. Or it gives nothing there, and an empty
    group here."""
    wrong = both.ours.get("error")
    if both.theirs == {"result": None, "get": None, "ran": []}:
        return both.ours == {"result": {"group": []}, "get": {"value": []}, "ran": []}
    ended = ends(both) or _waits_for_ignored(both)
    return both.theirs == {"error": EMPTY} and (
        ended or bool(wrong and WRONG_CALL.fullmatch(wrong))
    )


def _waits_for_ignored(both: Agreement) -> bool:
    """Whether there is a task whose result is ignored, and that has run here."""
    ignored = runs_of(each for each in within(both.canvas) if "ignored" in each)
    return bool(ignored & {told(json.loads(line)) for line in both.ours.get("ran", ())})


def _never_got(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery has all results, and waits for another one."""
    return theirs == {"error": "TimeoutError: The operation timed out."} and "value" in ours


def _failed_otherwise(both: Agreement, theirs: Any, ours: Any) -> bool:
    """The same, of a task that has gone on there and failed by itself."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict) or "error" not in theirs:
        return False
    return has_failed(both, ours) and both.same(without(theirs, "error"), without(ours, "error"))


def _is_behind_lost_end(both: Agreement, run: Run) -> bool:
    """Whether it is of a task that is not in a header whose end is lost, or a callback of one."""
    return _is_of(run, both.about(_beside_lost_ends))


def _is_of(run: Run, found: set[tuple[str, str]]) -> bool:
    """Whether it is of one of these tasks, or a callback of one, which may not have run."""
    if run[0] not in CALLBACKS:
        return told(run) in found
    return run[1][0] in {"fixed", "<id>", *(f"<{name}:{own}>" for name, own in found)}


def _behind_empty_bodies(canvas: Canvas) -> list[Canvas]:
    return [step for group, steps in groups_behind(canvas) if not counts(group) for step in steps]


def _beside_lost_ends(canvas: Canvas) -> set[tuple[str, str]]:
    return runs_of([canvas], but=headers_with_lost_ends(canvas))


def _became_nothing(both: Agreement, theirs: Any, ours: Any) -> bool:
    """A task that is replaced by nothing fails there."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return False
    return theirs.get("error") == EMPTY and both.same(
        without(theirs, "error"), without(ours, "value", "error")
    )


def _could_not_start(both: Agreement, theirs: Any, ours: Any) -> bool:
    """A task that has succeeded, or was replaced by what has failed, and fails there since it
    cannot start what is behind it."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return False
    ended = "value" in ours or has_failed(both, ours)
    rest = without(theirs, "error"), without(ours, "value", "error")
    return theirs.get("error") == EMPTY and ended and both.same(*rest)


def _is_told_of_nothing(both: Agreement, run: Run) -> bool:
    """Whether it is an error callback of such a task."""
    return run[0] == "note" or (run[0] == "told" and INDEX_ERROR.fullmatch(run[1][1]) is not None)


def _parent_of_one(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery hands on a list for a group of one, and what is before it is before its task."""
    if isinstance(theirs, list) and len(theirs) == 1 and both.same(theirs[0], ours):
        return True
    if not isinstance(theirs, dict) or not isinstance(ours, dict) or "parent" not in ours:
        return False
    tasks = theirs.get("group", ())
    if len(tasks) != 1 or "parent" in theirs or "parent" not in tasks[0]:
        return False
    moved = {"group": [without(tasks[0], "parent")], "parent": tasks[0]["parent"]}
    return both.same(moved, ours)


def _of_nothing(text: str) -> str:
    return INDEX_ERROR.sub("empty chain", EMPTY_CHAIN.sub("empty chain", text))


cannot_apply = Leeway(outcome=_cannot_apply)
never_got = Leeway(got=_never_got)
unnoticed = Leeway(
    node=lambda both, theirs, ours: (
        went_on(both, theirs, ours) or _failed_otherwise(both, theirs, ours)
    ),
    got=lambda both, _, ours: has_failed(both, ours),
    fewer=_is_behind_lost_end,
)
became_nothing = Leeway(
    node=_became_nothing,
    more=lambda both, run: (
        run[0] not in CALLBACKS and _is_of(run, both.about(_behind_linked_nothing))
    ),
    fewer=lambda both, run: run[0] in CALLBACKS and _is_of(run, both.about(_behind_linked_nothing)),
)
parent_of_one = Leeway(node=_parent_of_one)
of_nothing = Leeway(text=_of_nothing)


not_started = never_started(_behind_what_cannot_start)
could_not_start = replace(
    not_started,
    node=lambda both, theirs, ours: (
        _could_not_start(both, theirs, ours)
        or (not_started.node is not None and not_started.node(both, theirs, ours))
    ),
    got=lambda both, theirs, ours: theirs == "not ready" or _could_not_start(both, theirs, ours),
    fewer=_is_told_of_nothing,
)
behind_nothing = replace(never_started(_behind_empty_bodies), outcome=never_ends.outcome)


DIFFERENCES = [
    Difference(
        "canvases that are empty",
        {"is": "chord", "of": [], "body": {"is": "chain", "of": []}},
        _empty,
        cannot_apply,
    ),
    Difference(
        "replaced by chains of nothing",
        become({"is": "chain", "of": [{"is": "chain", "of": []}]}),
        _becomes_chains_of_nothing,
        of_nothing,
    ),
    Difference(
        "replaced by an empty group with links",
        become({"is": "group", "of": [], "links": [keep(1)]}),
        _becomes_a_linked_nothing,
        became_nothing,
    ),
    Difference(
        "an empty chain beside the only task of a group",
        {
            "is": "chord",
            "of": [
                {
                    "is": "chain",
                    "of": [
                        keep(1),
                        {"is": "group", "of": [keep(2), {"is": "chain", "of": []}]},
                    ],
                }
            ],
            "body": keep(3),
        },
        _empty_chain_beside_one,
        parent_of_one,
    ),
    Difference(
        "a group without tasks in a group",
        {
            "is": "group",
            "of": [
                keep(1),
                {"is": "chord", "of": [keep(2)], "body": {"is": "group", "of": []}},
            ],
        },
        _empty,
        never_got,
    ),
    Difference(
        "what a task cannot start, since something in it is empty",
        {
            "is": "chain",
            "of": [
                keep(1),
                {
                    "is": "group",
                    "of": [keep(2), {"is": "chain", "of": [{"is": "chain", "of": []}]}],
                    "lazy": True,
                },
            ],
        },
        lambda canvas: bool(_behind_what_cannot_start(canvas)),
        could_not_start,
    ),
    Difference(
        "error callbacks of a body that is a chain of an empty group",
        {
            "is": "chord",
            "of": [fail(1)],
            "body": {
                "is": "chain",
                "of": [{"is": "group", "of": []}],
                "errbacks": ["old"],
            },
        },
        _errbacks_of_an_empty_body,
        Leeway(fewer=lambda both, run: _is_without_id(run)),
    ),
    Difference(
        "a group of nothing at the end of a chain",
        {
            "is": "or",
            "of": [
                keep(1),
                {"is": "group", "of": [{"is": "chain", "of": []}, {"is": "group", "of": []}]},
            ],
        },
        _group_of_nothing_at_the_end,
        Leeway(node=_without_parent),
    ),
    Difference(
        "behind a chord whose body is an empty group",
        {
            "is": "chain",
            "of": [
                {"is": "chord", "of": [keep(1)], "body": {"is": "group", "of": []}},
                {"is": "chord", "of": [keep(2)], "body": keep(3)},
            ],
        },
        _behind_an_empty_body,
        behind_nothing,
    ),
    Difference(
        "a failed chord that ends in nothing",
        {
            "is": "chord",
            "of": [
                {"is": "chord", "of": [fail(1)], "body": {"is": "group", "of": []}},
                keep(2),
            ],
            "body": keep(3),
        },
        _fails_before_nothing,
        unnoticed,
    ),
]
