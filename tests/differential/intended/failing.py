"""What becomes of the tasks around one that fails, and how errors are worded."""

from __future__ import annotations

import re
from typing import Any

from tests.differential.agreeing import Agreement, Leeway, Run
from tests.differential.canvases import Canvas
from tests.differential.observed import STUCK
from tests.differential.reading import (
    ends_as_group,
    failing,
    is_chord,
    is_group,
    members,
    within,
)

from .difference import Difference, fail, keep
from .shared import (
    CALLBACKS,
    EMPTY_CHAIN,
    has_failed,
    is_pending,
    rest_is_same,
    without,
)

CHORD_ERROR = re.compile(r"ChordError: (Join error: |Dependency <\S*> raised )")
AS_TOLD = re.compile(r"ChordError\((['\"])(?:Join error: |Dependency <\S*> raised )(.*)\1\)")
AS_TEXT = re.compile(r"^(ValueError|Trouble|KeyError): (?=\()")
OF_A_TASK = re.compile(
    r"(ValueError|Trouble|KeyError)(: )?\((\\?['\"])(deliberate|deep|stubborn)\3, [^()]*\)"
)
REFUSED = re.compile(
    r"""(Reject: \("|reject requeue=False: )\('deliberate', [^()]*\)(", False\))?"""
)
OF_A_CHORD = re.compile(
    r"""ChordError\(\\*['"](Dependency <one> raised |Join error: )its error\\*['"]\)"""
)
NAMED = re.compile(r"<[a-z]+(:\[[^<>]*\])?>")


def _fails(canvas: Canvas) -> bool:
    return bool(failing(canvas))


def _fail_several(canvas: Canvas) -> bool:
    return len(failing(canvas)) > 1


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


def _fails_before_the_end_of_a_header(canvas: Canvas) -> bool:
    """Whether a header has a chain or a chord in it that ends as a group, and may fail before."""
    return any(
        ends_as_group(member) and failing(member)
        for each in within(canvas)
        for member in members(each)
        if member["is"] in ("chain", "or", "chord")
    )


def _hangs_where_it_fails(both: Agreement) -> bool:
    return both.theirs == STUCK and has_failed(both, both.ours.get("get"))


def _never_ran(both: Agreement, theirs: Any, ours: Any) -> bool:
    """What Celery leaves pending has failed here."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return False
    if is_pending(theirs):
        return has_failed(both, ours) and rest_is_same(both, theirs, ours, "error")
    waiting, lost = _tasks(theirs), _tasks(ours)
    return (
        len(waiting) == len(lost) > 0
        and all(map(is_pending, waiting))
        and all(has_failed(both, each) for each in lost)
        and both.same(without(theirs, "group"), without(ours, "group"))
    )


def _tasks(result: Any) -> list[Any]:
    """The tasks of a group, with those of groups in it; none, if one of them waited for another."""
    found: list[Any] = []
    for each in result.get("group", ()):
        if "parent" in each:
            return []
        found += _tasks(each) if "group" in each else [each]
    return found


def _got_failed(both: Agreement, theirs: Any, ours: Any) -> bool:
    return theirs == "not ready" and has_failed(both, ours)


def _is_unreached(both: Agreement, run: Run) -> bool:
    """Whether it is an error callback of a task that did not run, so that it has no name here; or
    of one that was replaced by a chord that failed."""
    replaced = any(
        each["of"] == "become" and failing(each["tag"]) and _joins(each["tag"])
        for each in within(both.canvas)
    )
    if run[0] not in CALLBACKS:
        return False
    unnamed = run[1][0] == "<id>" or run[1] == ["fixed"]
    return unnamed or (replaced and run[1][0].startswith("<become:"))


def _joins(canvas: Canvas) -> bool:
    """Whether a task that it replaces waits for a group."""
    return is_chord(canvas) or ends_as_group(canvas)


def _of_some_task(text: str) -> str:
    for error in (REFUSED, OF_A_TASK, EMPTY_CHAIN):
        text = error.sub("its error", text)
    text = NAMED.sub("<one>", text)
    while OF_A_CHORD.search(text):
        text = OF_A_CHORD.sub("its error", text)
    return text


def _reworded(text: str) -> str:
    told = AS_TOLD.fullmatch(text)
    said = AS_TEXT.sub(r"\1", told[2] if told else CHORD_ERROR.sub("", text))
    return EMPTY_CHAIN.sub("empty chain", said)


def _got_one_of_several(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Of a group: that of any of its tasks, as it is or as a `ChordError`."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return False
    errors = [_of_some_task(_reworded(each.get("error", ""))) for each in (theirs, ours)]
    return errors[0] == errors[1] != ""


hangs_where_it_fails = Leeway(outcome=_hangs_where_it_fails)
never_ran = Leeway(node=_never_ran, got=_got_failed)
callbacks_behind = Leeway(more=_is_unreached)
which_error = Leeway(text=_of_some_task, got=_got_one_of_several)
wording = Leeway(text=_reworded)


DIFFERENCES = [
    Difference(
        "what fails before the end of a header",
        {
            "is": "chord",
            "of": [
                keep(1),
                {
                    "is": "or",
                    "of": [
                        fail(2),
                        {
                            "is": "chord",
                            "of": [keep(3)],
                            "body": {"is": "group", "of": [keep(4)]},
                        },
                    ],
                },
            ],
            "body": keep(5),
        },
        _fails_before_the_end_of_a_header,
        hangs_where_it_fails,
    ),
    Difference(
        "callbacks of what a failed chord keeps from running",
        {
            "is": "chord",
            "of": [{"is": "chord", "of": [fail(1)], "body": keep(2)}],
            "body": {**keep(3), "errbacks": ["old"]},
        },
        _failing_chord,
        callbacks_behind,
    ),
    Difference(
        "what cannot run has failed",
        {"is": "chain", "of": [fail(1), {"is": "group", "of": [keep(2), keep(3)]}]},
        _fails,
        never_ran,
    ),
    Difference(
        "how a failed chord with a group as body is worded",
        {
            "is": "chord",
            "of": [
                fail(1),
                {
                    "is": "chord",
                    "of": [keep(2)],
                    "body": {"is": "group", "of": [keep(3), keep(4)]},
                },
            ],
            "body": keep(5),
        },
        _failing_chord_of_groups,
        wording,
    ),
    Difference(
        "which of several errors is raised",
        {"is": "chord", "of": [{"is": "group", "of": [fail(1), fail(2)]}], "body": keep(3)},
        _fail_several,
        which_error,
    ),
]
