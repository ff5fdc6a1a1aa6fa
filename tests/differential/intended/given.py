"""Arguments and keywords, and canvases that take none."""

from __future__ import annotations

from typing import Any

from tests.differential.agreeing import Agreement, Leeway
from tests.differential.canvases import Canvas
from tests.differential.reading import (
    alone,
    is_chord,
    is_group,
    steps,
    within,
)

from .difference import Difference, keep
from .shared import (
    ends,
)

NOT_IMMUTABLE = "AttributeError: 'str' object has no attribute 'set_immutable'"


def _immutable_chord(canvas: Canvas) -> bool:
    return any("immutable" in each and any(map(is_chord, within(each))) for each in within(canvas))


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


def _immutable_group_of_chains(canvas: Canvas) -> bool:
    return any(
        any("immutable" in one for one in (outer, member, alone(member)))
        and member["is"] in ("chain", "or")
        for outer in within(canvas)
        for each in within(outer)
        if each["is"] in ("group", "chord")
        for member in each["of"]
    )


def _keywords_for_an_immutable_chain(canvas: Canvas) -> bool:
    """Whether keywords are given to a chain that is immutable, or in a group that is."""
    return "kwargs" in canvas.get("call", {}) and (
        any("immutable" in each and each["is"] in ("chain", "or") for each in within(canvas))
        or _immutable_group_of_chains(canvas)
    )


def _keywords_for_a_chord(canvas: Canvas) -> bool:
    """Whether a chain that begins with several tasks is given keywords."""
    return "kwargs" in canvas.get("call", {}) and _begins_with_several(canvas)


def _begins_with_several(canvas: Canvas) -> bool:
    if canvas["is"] in ("group", "chord"):
        return any(map(_begins_with_several, canvas["of"]))
    if canvas["is"] not in ("chain", "or") or not steps(canvas):
        return False
    first = steps(canvas)[0]
    return first["is"] in ("chord", "group", "chunks") or _begins_with_several(first)


def _cannot_be_immutable(both: Agreement) -> bool:
    return both.theirs == {"error": NOT_IMMUTABLE} and ends(both)


def _with_one_more(both: Agreement, less: Any, more: Any) -> bool:
    return isinstance(less, list) and isinstance(more, list) and len(more) == len(less) + 1


def _given(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery loses what is given, or the result of what is before; here that comes first. It may
    lose a keyword, too."""
    keywords = both.canvas.get("call", {}).get("kwargs")
    if isinstance(ours, list) and keywords is not None and ours[-1:] == [keywords]:
        ours = ours[:-1]
        if isinstance(theirs, list) and theirs and isinstance(theirs[-1], dict):  # its own
            theirs = theirs[:-1]
    if not _with_one_more(both, theirs, ours):
        return False
    numbers = [each["tag"] for each in within(both.canvas) if each["of"] in ("tag", "join")]
    known = ours[0] in [*both.canvas.get("given", ()), *numbers, None] or isinstance(ours[0], list)
    return known and both.in_turn(theirs, ours[1:])


def _taken(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Tasks take an argument there that are immutable here, and perhaps a keyword."""
    keywords = both.canvas.get("call", {}).get("kwargs")
    if isinstance(theirs, list) and keywords is not None and theirs[-1:] == [keywords]:
        theirs = theirs[:-1]
    return _with_one_more(both, ours, theirs) and both.in_turn(theirs[1:], ours)


def _keyword(both: Agreement) -> Any:
    return both.canvas["call"]["kwargs"]


def _with_keyword(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery loses a keyword that is given, or has one of the task's own."""
    if (
        not isinstance(theirs, list)
        or not isinstance(ours, list)
        or _keyword(both) not in ours[-1:]
    ):
        return False
    own = theirs[:-1] if theirs and isinstance(theirs[-1], dict) else theirs
    return both.in_turn(own, ours[:-1])


def _keyword_taken(both: Agreement, theirs: Any, ours: Any) -> bool:
    """A task takes a keyword there, and maybe what is given, and is immutable here, maybe with a
    keyword of its own."""
    if not isinstance(theirs, list) or not isinstance(ours, list):
        return False
    own = ours[:-1] if ours and isinstance(ours[-1], dict) else ours
    if _keyword(both) not in theirs[-1:]:
        return False
    given = both.canvas.get("given", [])
    before = [theirs[:-1], theirs[len(given) : -1]] if theirs[:1] == given else [theirs[:-1]]
    return any(both.in_turn(each, own) for each in before)


cannot_be_immutable = Leeway(outcome=_cannot_be_immutable)
given = Leeway(node=_given)
taken = Leeway(node=_taken)
keywords = Leeway(
    node=_with_keyword, kwargs=lambda both, theirs, ours: bool(ours == _keyword(both))
)
keywords_taken = Leeway(
    node=_keyword_taken,
    kwargs=lambda both, theirs, ours: bool(theirs == {**ours, **_keyword(both)}),
)


DIFFERENCES = [
    Difference(
        "keywords for a chain that is immutable",
        {
            "is": "chain",
            "of": [keep(1), keep(2)],
            "immutable": True,
            "call": {"kwargs": {"k": 1}},
        },
        _keywords_for_an_immutable_chain,
        keywords_taken,
    ),
    Difference(
        "keywords for a chain that begins with a chord",
        {
            "is": "chain",
            "of": [{"is": "chord", "of": [keep(1)], "body": keep(2)}],
            "call": {"kwargs": {"k": 1}},
        },
        _keywords_for_a_chord,
        keywords,
    ),
    Difference(
        "chains in a group that is immutable",
        {
            "is": "group",
            "of": [{"is": "or", "of": [keep(1), keep(2)]}, keep(3)],
            "immutable": True,
            "given": ["p"],
        },
        _immutable_group_of_chains,
        taken,
    ),
    Difference(
        "a chord with a group that is immutable",
        {
            "is": "group",
            "of": [{"is": "chord", "of": [keep(1), keep(2)], "body": keep(3), "visitor": "red"}],
            "immutable": True,
        },
        _immutable_chord,
        cannot_be_immutable,
    ),
    Difference(
        "arguments of a chain that is one group",
        {
            "is": "chain",
            "of": [{"is": "group", "of": [keep(1), keep(2)]}],
            "given": ["p"],
        },
        _given_to_a_chain_of_a_group,
        given,
    ),
]
