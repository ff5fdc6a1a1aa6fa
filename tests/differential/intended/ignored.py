"""Tasks whose results are ignored."""

from __future__ import annotations

import re
from typing import Any

from tests.differential.agreeing import Agreement, Leeway, Run
from tests.differential.canvases import Canvas
from tests.differential.headers import headers, nested
from tests.differential.observed import STUCK
from tests.differential.reading import (
    ends_as_group,
    failing,
    members,
    runs_of,
    within,
)

from .difference import Difference, become, fail, keep
from .shared import (
    CALLBACKS,
    ends,
    has_failed,
    is_pending,
    rest_is_same,
    told,
    went_on,
    without,
)

SAYING = re.compile(r"\('(deliberate|deep|stubborn)', [^()]*\)")


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


def _behind_ignored_failures(canvas: Canvas) -> list[Canvas]:
    """What is behind a header in which such a task may fail."""
    return [
        each
        for header in headers(canvas)
        if nested(header)
        and any("ignored" in task for member in header.members for task in failing(member))
        for each in header.behind
    ]


def _ran_there(both: Agreement, run: Run) -> bool:
    return told(run) in runs_of(both.about(_behind_ignored_failures))


def _is_callback_of_it(both: Agreement, run: Run) -> bool:
    found = runs_of(both.about(_behind_ignored_failures))
    names = {"fixed", "<id>", *(f"<{name}:{own}>" for name, own in found)}
    return run[0] in CALLBACKS and run[1][0] in names


def _ignored_and_replaced(canvas: Canvas) -> bool:
    return any(each["of"] == "become" and "ignored" in each for each in within(canvas))


def _replaced_by_ignored(canvas: Canvas) -> bool:
    return any(
        each["of"] == "become" and _ignored(each["tag"])
        for each in within(canvas)
        if each["is"] == "task"
    )


def _hangs(both: Agreement) -> bool:
    return both.theirs == STUCK and ends(both)


def _succeeded(both: Agreement, theirs: Any, ours: Any) -> bool:
    return theirs == "not ready" and "value" in ours


def _is_ignored(both: Agreement, theirs: Any, ours: Any) -> bool:
    """A task whose result is ignored: pending there, succeeded with nothing here."""
    if not is_pending(theirs) or not isinstance(ours, dict) or ours.get("value", ...) is not None:
        return False
    return rest_is_same(both, theirs, ours, "value")


def _got_ignored(both: Agreement, theirs: Any, ours: Any) -> bool:
    said = _said(theirs)  # of the task that failed, which has no result there
    return _succeeded(both, theirs, ours) or (said is not None and said == _said(ours))


def _said(got: Any) -> str | None:
    """What the task that failed has said."""
    error = got.get("error") if isinstance(got, dict) else None
    found = SAYING.search(error) if error else None
    return found and found[0]


def _replaced(both: Agreement, theirs: Any, ours: Any) -> bool:
    """A task replaced by one whose result is ignored: pending there, here with that result."""
    if not is_pending(theirs) or not isinstance(ours, dict) or "value" not in ours:
        return False
    return rest_is_same(both, theirs, ours, "value")


def _dropped(both: Agreement, theirs: Any, ours: Any) -> bool:
    """A task whose result is ignored, replaced by another one: with that one's result there."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict) or "value" not in theirs:
        return False
    if not is_pending(ours) and ours.get("value", ...) is not None:
        return False
    return both.same(without(theirs, "value"), without(ours, "value", "state"))


def _got_nothing(both: Agreement, theirs: Any, ours: Any) -> bool:
    if theirs == {"value": None}:
        return True
    if ours == "not ready":  # since that one stays pending
        several = isinstance(theirs, dict) and isinstance(theirs.get("value"), list)
        return several or has_failed(both, theirs)
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return False
    there, here = theirs.get("value"), ours.get("value")
    if not isinstance(there, list) or not isinstance(here, list):
        return False
    known = [their for their, our in zip(there, here, strict=False) if our is not None]
    return both.in_turn(known, [our for our in here if our is not None])


def _not_handed_on(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery hands on nothing for a task whose result is ignored."""
    return theirs is None and ours is not None


hangs = Leeway(outcome=_hangs)
ignored = Leeway(node=_is_ignored, got=_got_ignored)
not_handed_on = Leeway(node=_not_handed_on)
dropped = Leeway(node=_dropped, got=_got_nothing)
replaced = Leeway(node=_replaced, got=_succeeded)
unnoticed_failure = Leeway(
    node=went_on,
    got=lambda both, theirs, ours: "value" in theirs and has_failed(both, ours),
    fewer=_ran_there,
    more=_is_callback_of_it,
)


DIFFERENCES = [
    Difference(
        "replaced by a task whose result is ignored",
        become({**keep(1), "ignored": True}),
        _replaced_by_ignored,
        replaced,
    ),
    Difference(
        "an ignored task replaced by one that is not",
        {
            "is": "chain",
            "of": [{**become(keep(1)), "ignored": True}, keep(2)],
        },
        _ignored_and_replaced,
        dropped,
    ),
    Difference(
        "results that are ignored",
        {"is": "chain", "of": [{**keep(1), "ignored": True}, keep(2)]},
        _ignored,
        ignored,
    ),
    Difference(
        "ignored results at the end of a header",
        {
            "is": "chord",
            "of": [
                {
                    "is": "chain",
                    "of": [
                        keep(1),
                        {"is": "group", "of": [{**keep(2), "ignored": True}, keep(3)]},
                    ],
                },
                keep(4),
            ],
            "body": keep(5),
        },
        _ignored_at_the_end_of_a_header,
        hangs,
    ),
    Difference(
        "ignored results beside the end of a header",
        {
            "is": "chord",
            "of": [
                {
                    "is": "chord",
                    "of": [keep(1)],
                    "body": {"is": "group", "of": [keep(2), keep(3)]},
                },
                {**keep(4), "ignored": True},
            ],
            "body": keep(5),
        },
        _ignored_beside_the_end_of_a_header,
        not_handed_on,
    ),
    Difference(
        "an ignored failure beside the end of a header",
        {
            "is": "chord",
            "of": [
                {**fail(1), "ignored": True},
                {"is": "chain", "of": [keep(2), {"is": "group", "of": [keep(3), keep(4)]}]},
            ],
            "body": keep(5),
        },
        lambda canvas: bool(_behind_ignored_failures(canvas)),
        unnoticed_failure,
    ),
]
