"""What is linked to chains."""

from __future__ import annotations

from tests.differential.agreeing import Agreement, Leeway, Run
from tests.differential.canvases import Canvas
from tests.differential.reading import (
    alone,
    chains_in_lone_groups,
    is_chord,
    is_group,
    lone_steps,
    lost_links,
    only,
    runs_of,
    within,
)

from .difference import Difference, fail, keep
from .shared import (
    CALLBACKS,
    NOT_A_SIGNATURE,
    ends,
    told,
)


def _links_of_lone_chain(canvas: Canvas) -> bool:
    return bool(lost_links(canvas) or _with_lost_errbacks(canvas))


def _with_lost_errbacks(canvas: Canvas) -> list[Canvas]:
    """The chains whose error callbacks Celery loses."""
    lone = [
        member
        for each in within(canvas)
        if each["is"] == "chain" and len(each["of"]) == 1
        for member in (each["of"][0], only(alone(each["of"][0])))
        if only(alone(member))["is"] in ("chain", "or")
    ]
    found = (*lone_steps(canvas), *lone, *chains_in_lone_groups(canvas))
    return [each for each in found if "errbacks" in each]


def _links_behind_a_chord(canvas: Canvas) -> bool:
    """Whether a chain that ends as a group behind a chord has links, and is in another chain, or is
    the body of a chord that is in one behind something (its links may be the chord's)."""
    chains = [each for each in within(canvas) if each["is"] in ("chain", "or")]
    inner = [member for each in chains for member in each["of"] if is_chord(member)]
    behind = [member for each in chains for member in map(alone, each["of"][1:])]
    bodies = [
        alone({**member["body"], "links": member["links"]} if "links" in member else member["body"])
        for member in behind
        if member["is"] == "chord"
    ]
    return any(
        "links" in each and each["is"] in ("chain", "or") and is_group(each)
        for each in (*inner, *bodies)
    )


def _cannot_link(both: Agreement) -> bool:
    return both.theirs == {"error": NOT_A_SIGNATURE} and ends(both)


def _is_lost_link(both: Agreement, run: Run) -> bool:
    """Whether it is of a link that Celery loses, or an error callback of such a link or of a task
    in a chain that has lost its own."""
    if run[0] not in CALLBACKS:
        return told(run) in both.about(_lost)
    if run[1] == ["fixed"]:
        return both.about(_has_lost_fixed)
    names = {f"<{of}:{own}>" for of, own in both.about(_without_errbacks)}
    return run[1][0].replace("\\u2026", "…") in {"<id>", *names}


def _lost(canvas: Canvas) -> set[tuple[str, str]]:
    return runs_of(lost_links(canvas))


def _without_errbacks(canvas: Canvas) -> set[tuple[str, str]]:
    return runs_of([*lost_links(canvas), *_with_lost_errbacks(canvas)])


def _has_lost_fixed(canvas: Canvas) -> bool:
    """Whether one of those error callbacks does not tell whose it is."""
    lost = [*lost_links(canvas), *_with_lost_errbacks(canvas)]
    return any("fixed" in one.get("errbacks", ()) for each in lost for one in within(each))


cannot_link = Leeway(outcome=_cannot_link)
links = Leeway(more=_is_lost_link)


DIFFERENCES = [
    Difference(
        "links that Celery loses",
        {"is": "chain", "of": [{"is": "chain", "of": [fail(1)], "errbacks": ["new"]}]},
        _links_of_lone_chain,
        links,
    ),
    Difference(
        "links of a chain that ends as a group behind a chord",
        {
            "is": "chain",
            "of": [
                keep(1),
                {
                    "is": "chain",
                    "of": [
                        {"is": "chord", "of": [keep(2)], "body": keep(3)},
                        {"is": "group", "of": [keep(4), keep(5)]},
                    ],
                    "links": [keep(6)],
                },
            ],
        },
        _links_behind_a_chord,
        cannot_link,
    ),
]
