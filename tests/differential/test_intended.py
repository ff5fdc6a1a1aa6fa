"""A difference that is meant to be explains what it is for, and no fault of ours beside it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .canvases import Canvas
from .intended import explained
from .observed import Outcome


def task(of: str = "keep", tag: Any = 1, **more: Any) -> Canvas:
    return {"is": "task", "of": of, "tag": tag, **more}


def several(kind: str, *of: Canvas, **more: Any) -> Canvas:
    return {"is": kind, "of": list(of), **more}


def ran(*lines: list[Any]) -> list[str]:
    return sorted(map(json.dumps, lines))


def outcome(result: Any, *lines: list[Any], got: Any = None) -> Outcome:
    if got is None:
        got = {name: result[name] for name in ("value", "error") if name in result} or "not ready"
    return {"result": result, "get": got, "ran": ran(*lines)}


PENDING = {"state": "PENDING"}
ERROR = {"error": "ValueError: ('deliberate', 1)"}
FAILED = ["fail", [1]]
FAILING = several("chain", task("fail"), task(tag=2))
GROUPS = several("chord", several("group", task(), task(tag=2)), body=task(tag=3))
STAMPED = several("chord", task(), body=task(tag=2), stamp="red")
BEHIND = several("chord", several("chord", task("fail"), body=task(tag=2)), body=task(tag=3))
EMPTY = several("chord", body=several("chain"))
LINKED = several("chain", several("chain", task(), links=[task(tag=2)]))
TWO = several("group", task("fail"), task("fail", 2))
IGNORED = several("chain", task(ignored=True), task(tag=2))
GIVEN = several("chain", several("group", task(), task(tag=2)), given=["p"])
KEYWORDS = several("chain", several("chord", task(), body=task(tag=2)), call={"kwargs": {"k": 1}})
INDEX_ERROR = {"error": "IndexError: list index out of range"}
MARK = {"stamps": {"mark": "red"}}
REPLACED = several(
    "chord",
    task("become", several("or", several("group", task()), several("group", task(tag=2)))),
    body=task(tag=3),
)
BECOMES_TWICE_TOLD = task(
    "become",
    several(
        "chord",
        task(tag=2),
        body=several("chain", task(tag=3), task("fail"), errbacks=["old"]),
    ),
    errbacks=["old"],
)
TOLD = ["note", ["<fail:[1]>", "old"]]
BEHIND_A_CHORD = several(
    "chain",
    task(),
    several(
        "chain",
        several("chord", task(tag=2), body=task(tag=3)),
        several("group", task(tag=4)),
        links=[task(tag=5)],
    ),
)
NO_CLONE = {"error": "AttributeError: 'dict' object has no attribute 'clone'"}
OF_A_GROUP = several(
    "chord", several("chord", task(), body=several("group", task("fail"))), body=task(tag=2)
)

IGNORED_END = several(
    "chord",
    several("chain", task(), several("group", task(tag=2, ignored=True), task(tag=3))),
    body=task(tag=4),
)
JOINED_END = several(
    "chord", several("chain", task(), several("group", task("join", 2))), body=task(tag=3)
)
NOTHING = several("group")
FAILED_BEFORE_NOTHING = several(
    "chord", several("chord", task("fail"), body=NOTHING), task(tag=2), body=task(tag=3)
)
BODY_OF_ONE = several(
    "chain",
    several("chord", task(), body=several("group", task(tag=2))),
    several("group", task(tag=3), task(tag=4)),
    task(tag=5),
)
BEHIND_GROUPS = several(
    "chain",
    several("chord", task(), body=several("group", task(tag=2), task(tag=3))),
    several("chord", task(tag=4), body=task(tag=5)),
)
BECOME = task("become", several("chord", task(), body=several("group", task(tag=2), task(tag=3))))
HEADER_IN_A_GROUP = several(
    "group",
    several(
        "chain",
        task(),
        several("group", task(tag=2), task(tag=3)),
        several("group", task(tag=4), task(tag=5)),
    ),
)
PENDING_HEADER = {"group": [PENDING, PENDING]}
JOINED_BODY = several(
    "or",
    several(
        "chord",
        task(),
        body=several(
            "chain",
            several("chain", task(tag=2), task("fail")),
            links=[task(tag=5)],
            errbacks=["old"],
        ),
    ),
    task(tag=3),
)
GROUP_WITH_LINKS = several(
    "chain", task(), several("group", task(tag=2), links=[task(tag=3)]), links=[task(tag=4)]
)
CHORD_AT_THE_END = several(
    "chord",
    several(
        "chain",
        task(),
        several("group", several("chord", task(tag=2), body=task(tag=3)), task(tag=4)),
    ),
    body=task(tag=5),
)
DROPPED = several("chain", task("become", task(), ignored=True), task(tag=2))

OWN_FAILED = ["note", ['<become:["…"]>', "old"]]
PAIR = several("group", task(), task(tag=2))
CHORD_BEHIND = several(
    "chain", task(), several("chord", task(tag=2), body=task(tag=3)), task(tag=4)
)
BECOMES_LINKED = task("become", {**CHORD_BEHIND, "links": [task(tag=5)]})
BECOMES_FAILING = task(
    "become",
    several("chain", task(), several("group", task("fail"), task(tag=2)), task(tag=3), task(tag=4)),
    errbacks=["old"],
)
CASES: dict[str, tuple[Canvas, Outcome, Outcome, Outcome]] = {
    "what cannot run has failed": (
        FAILING,
        outcome(PENDING, FAILED),
        outcome(ERROR, FAILED),
        outcome({"error": "TypeError: unheard of"}, FAILED),
    ),
    "groups in groups keep their order": (
        GROUPS,
        outcome({"value": [[[2], [1]], 3]}, ["keep", [[[2], [1]], 3]]),
        outcome({"value": [[[1], [2]], 3]}, ["keep", [[[1], [2]], 3]]),
        outcome({"value": [3, [[1], [2]]]}, ["keep", [3, [[1], [2]]]]),
    ),
    "stamps that are keywords reach the body of a chord": (
        STAMPED,
        outcome({"value": 1}, ["keep", [1], MARK], ["keep", [2]]),
        outcome({"value": 1}, ["keep", [1], MARK], ["keep", [2], MARK]),
        outcome({"value": 1}, ["keep", [1]], ["keep", [2], MARK]),
    ),
    "callbacks of what a failed chord keeps from running": (
        BEHIND,
        outcome(ERROR, FAILED),
        outcome(ERROR, FAILED, ["note", ["<id>", "old"]]),
        outcome(ERROR, FAILED, ["note", ["<fail:[1]>", "old"]]),
    ),
    "canvases that are empty": (
        EMPTY,
        INDEX_ERROR,
        outcome({"group": []}, got={"value": []}),
        outcome(PENDING),
    ),
    "links that Celery loses": (
        LINKED,
        outcome({"value": [1]}, ["keep", [1]]),
        outcome({"value": [1]}, ["keep", [1]], ["keep", [[1], 2]]),
        outcome({"value": [1]}, ["keep", [[1], 2]]),
    ),
    "results of a header in a chain that is in a group": (
        HEADER_IN_A_GROUP,
        outcome({"group": [{"value": 4}, {"value": 5}], "parent": PENDING_HEADER}),
        outcome(
            {
                "group": [{"value": 4}, {"value": 5}],
                "parent": {"group": [{"value": 2}, {"value": 3}]},
            }
        ),
        outcome({"group": [{"value": 4}, PENDING], "parent": {"group": [{"value": 2}, PENDING]}}),
    ),
    "the result of a task replaced by a chord that ends as a group": (
        several("chain", BECOME, task(tag=4)),
        outcome({"value": 4, "parent": PENDING}, ["note", ["<keep:[2]>", "old"]]),
        outcome({"value": 4, "parent": {"value": [2, 3]}}, ["note", ["<keep:[2]>", "old"]]),
        outcome({"value": 4, "parent": {"value": [2, 3]}}),
    ),
    "a task of a header replaced by a chain whose chord ends as a group": (
        several("chord", BECOME, body=task(tag=4)),
        outcome({"value": 4}, ["keep", [[[1, 2]], 4]]),
        outcome({"value": 4}, ["keep", [[[[1, 2], [1, 3]]], 4]]),
        outcome({"value": 4}, ["keep", [[[[5, 2], [1, 3]]], 4]]),
    ),
    "a chord in a group at the end of a header": (
        CHORD_AT_THE_END,
        outcome(PENDING, ["keep", [1]]),
        outcome({"value": 5}, ["keep", [1]], ["keep", [[], 5]]),
        outcome({"value": 5}, ["keep", [1]], ["keep", [[], 5]], ["keep", [[], 5]]),
    ),
    "what a task cannot start, since something in it is empty": (
        several(
            "chain", task("become", several("chord", task(), body=several("chain"))), task(tag=2)
        ),
        outcome(INDEX_ERROR, ["become", ["…"]]),
        outcome({"value": [[[1]], 2]}, ["become", ["…"]], ["keep", [1]], ["keep", [[[1]], 2]]),
        outcome({"value": [[[1]], 2]}, ["keep", [1]], ["keep", [[[1]], 2]]),
    ),
    "error callbacks of a body that is a chain of an empty group": (
        several("chord", task("fail"), body=several("chain", several("group"), errbacks=["old"])),
        outcome({"group": []}, FAILED, ["note", ["<id>", "old"]]),
        outcome({"group": []}, FAILED),
        outcome({"group": []}),
    ),
    "which of several errors is raised": (
        TWO,
        outcome({"group": []}, got=ERROR),
        outcome({"group": []}, got={"error": "ValueError: ('deliberate', 2)"}),
        outcome({"group": []}, got={"error": "TypeError: unheard of"}),
    ),
    "results that are ignored": (
        IGNORED,
        outcome({"value": 2, "parent": PENDING}),
        outcome({"value": 2, "parent": {"value": None}}),
        outcome({"value": 2, "parent": {"value": [1]}}),
    ),
    "arguments of a chain that is one group": (
        GIVEN,
        outcome({"value": [[1], [2]]}, ["keep", [1]], ["keep", [2]]),
        outcome({"value": [["p", 1], ["p", 2]]}, ["keep", ["p", 1]], ["keep", ["p", 2]]),
        outcome({"value": [["p", 1]]}, ["keep", ["p", 1]]),
    ),
    "tasks that join a header come last": (
        several("chord", task("join"), task(tag=2), body=task(tag=3)),
        outcome({"value": [[[[1]], 1, [2]], 3]}),
        outcome({"value": [[1, [2], [[1]]], 3]}),
        outcome({"value": [[1, [[1]]], 3]}),
    ),
    "a task of a header replaced by a chord whose body is several": (
        REPLACED,
        outcome(PENDING, ["become", ["…"]], ["keep", [1]]),
        outcome({"value": 3}, ["become", ["…"]], ["keep", [1]], ["keep", [[], 3]]),
        outcome({"value": 3}, ["become", ["…"]], ["keep", [1]], ["keep", [2]]),
    ),
    "links of a chain that ends as a group behind a chord": (
        BEHIND_A_CHORD,
        NO_CLONE,
        outcome({"group": [{"value": 4}]}, got={"value": [4]}),
        outcome(PENDING),
    ),
    "how a failed chord with a group as body is worded": (
        OF_A_GROUP,
        outcome(
            {"error": "ChordError: Join error: ValueError('deliberate', 1)"},
            ["told", ["<id>", "ChordError(\"Join error: ValueError('deliberate', 1)\")", "new"]],
        ),
        outcome(ERROR, ["told", ["<id>", "ValueError('deliberate', 1)", "new"]]),
        outcome(ERROR, ["told", ["<id>", "ValueError('deliberate', 2)", "new"]]),
    ),
    "ignored results at the end of a header": (
        IGNORED_END,
        {"stuck": True},
        outcome({"value": 4}),
        outcome(PENDING),
    ),
    "ignored results beside the end of a header": (
        several("chord", JOINED_END["of"][0], task(tag=4, ignored=True), body=task(tag=5)),
        outcome({"value": [[[[1]], None], 5]}),
        outcome({"value": [[[[1]], [4]], 5]}),
        outcome({"value": [[[[6]], [4]], 5]}),
    ),
    "tasks that join the end of a header": (
        JOINED_END,
        outcome({"value": [[[1]], 3]}),
        outcome({"value": [[[1], [[2]]], 3]}),
        outcome({"value": [[[1], [[4]]], 3]}),
    ),
    "a failed chord that ends in nothing": (
        FAILED_BEFORE_NOTHING,
        outcome({"value": [[[], [2]], 3]}, FAILED, ["keep", [2]], ["keep", [[[], [2]], 3]]),
        outcome(ERROR, FAILED, ["keep", [2]]),
        outcome({"error": "TypeError: unheard of"}, FAILED, ["keep", [2]]),
    ),
    "behind a chord whose body is a group of one": (
        BODY_OF_ONE,
        outcome({"value": 5}, ["keep", [[[1], 2], 3]]),
        outcome({"value": 5}, ["keep", [[[[1], 2]], 3]]),
        outcome({"value": 5}, ["keep", [[[[1], 4]], 3]]),
    ),
    "what is behind a chord whose body is a group": (
        BEHIND_GROUPS,
        outcome({"value": [[[2, 4]], 5]}, ["keep", [2, 4]], ["keep", [3, 4]]),
        outcome({"value": [[[[2, 3], 4]], 5]}, ["keep", [[2, 3], 4]]),
        outcome({"value": [[[[3, 3], 4]], 5]}, ["keep", [[3, 3], 4]]),
    ),
    "what fails before the end of a header": (
        several(
            "chord", several("chain", task("fail"), several("group", task(tag=2))), body=task(tag=3)
        ),
        {"stuck": True},
        outcome(ERROR, FAILED),
        outcome(PENDING, FAILED),
    ),
    "a chord with a group that is immutable": (
        several("group", several("chord", task(), task(tag=2), body=task(tag=3)), immutable=True),
        {"error": "AttributeError: 'str' object has no attribute 'set_immutable'"},
        outcome({"group": [{"value": 3}]}, got={"value": [3]}),
        outcome(PENDING),
    ),
    "an ignored task replaced by one that is not": (
        DROPPED,
        outcome({"value": 2, "parent": {"value": [1]}}),
        outcome({"value": 2, "parent": {"value": None}}),
        outcome({"value": 2, "parent": ERROR}),
    ),
    "tasks that join a header without a body": (
        several("chord", task("join"), body=NOTHING),
        outcome({"group": []}, ["join", [1]]),
        outcome({"group": []}, ["join", [1]], ["keep", [[1]]]),
        outcome({"group": []}, ["join", [1]], ["keep", [[2]]]),
    ),
    "replaced by an empty group with links": (
        task("become", several("group", links=[task()])),
        outcome(INDEX_ERROR),
        outcome({"value": []}),
        outcome(PENDING),
    ),
    "keywords for a chain that begins with a chord": (
        KEYWORDS,
        outcome({"value": [1]}, ["keep", [1]]),
        outcome({"value": [1, {"k": 1}]}, ["keep", [1], {"kwargs": {"k": 1}}]),
        outcome({"value": [2, {"k": 1}]}, ["keep", [2], {"kwargs": {"k": 1}}]),
    ),
    "links of a chain with a chord that a task is replaced by": (
        BECOMES_LINKED,
        outcome({"value": 4}, ["keep", [3, 5]], ["keep", [[3, 4], 4]]),
        outcome({"value": 4}, ["keep", [[3, 4], 5]], ["keep", [[3, 4], 4]]),
        outcome({"value": 4}, ["keep", [[3, 4], 6]], ["keep", [[3, 4], 4]]),
    ),
    "an error callback both of a task and of the chain behind the chord that it becomes": (
        BECOMES_TWICE_TOLD,
        outcome(ERROR, FAILED, TOLD),
        outcome(ERROR, FAILED, TOLD, TOLD),
        outcome(ERROR, FAILED, TOLD, TOLD, TOLD),
    ),
    "whose id error callbacks of a body get": (
        BECOMES_FAILING,
        outcome(ERROR, FAILED, ["note", ["<id>", "old"]]),
        outcome(ERROR, FAILED, OWN_FAILED),
        outcome(ERROR, FAILED, ["note", ["<keep:[3]>", "old"]]),
    ),
    "a group alone in a group, in a chain of its own": (
        several("chain", several("group", several("chain", PAIR), NOTHING)),
        outcome({"group": [{"value": 1}, {"value": 2}]}),
        outcome({"group": [{"group": [{"value": 1}, {"value": 2}]}]}),
        outcome({"group": [{"group": [{"value": 1}, {"value": 3}]}]}),
    ),
    "an ignored failure beside the end of a header": (
        several(
            "chord",
            task("fail", ignored=True),
            several("chain", task(tag=2), several("group", task(tag=3), task(tag=4))),
            body=task(tag=5),
        ),
        outcome({"value": 5}, FAILED, ["keep", [[None, [3, 4]], 5]]),
        outcome(ERROR, FAILED),
        outcome(PENDING, FAILED),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_it_explains_what_it_is_for(name: str) -> None:
    canvas, theirs, ours, _ = CASES[name]
    assert explained(canvas, theirs, ours) == [name]


@pytest.mark.parametrize("name", CASES)
def test_it_explains_no_fault_beside_that(name: str) -> None:
    canvas, theirs, _, wrong = CASES[name]
    assert explained(canvas, theirs, wrong) is None


@pytest.mark.parametrize("name", CASES)
def test_it_explains_nothing_of_another_canvas(name: str) -> None:
    _, theirs, ours, _ = CASES[name]
    assert explained(several("group", task(), task(tag=2)), theirs, ours) is None


TURNED_ROUND = several("group", task(ignored=True), task("flaky", 2))
FAILS = several("group", task("fail"), task("trouble", 2), several("chord", task(), body=task()))
TROUBLE = {"error": "Trouble: ('deep', 2)"}
RED = several(
    "chord",
    task(tag=4),
    body=several("chord", several("group", task(), task(tag=2)), body=task(tag=3)),
    stamp="red",
)

TOGETHER: dict[str, tuple[Canvas, set[str], Outcome, Outcome, Outcome]] = {
    "order and results that are ignored": (
        several("chord", TURNED_ROUND, body=task(tag=3)),
        {"groups in groups keep their order", "results that are ignored"},
        outcome({"value": 3, "parent": {"group": [{"value": [2]}, PENDING]}}),
        outcome({"value": 3, "parent": {"group": [{"value": None}, {"value": [2]}]}}),
        outcome({"value": 3, "parent": {"group": [{"value": None}, {"value": [1]}]}}),
    ),
    "order, several errors and what cannot run": (
        several("chord", FAILS, body=task(tag=3)),
        {
            "groups in groups keep their order",
            "which of several errors is raised",
            "what cannot run has failed",
        },
        outcome({**TROUBLE, "parent": {"group": [TROUBLE, PENDING, ERROR]}}, FAILED),
        outcome({**ERROR, "parent": {"group": [ERROR, TROUBLE, ERROR]}}, FAILED),
        outcome({**ERROR, "parent": {"group": [ERROR, ERROR]}}, FAILED),
    ),
    "order and stamps": (
        RED,
        {
            "groups in groups keep their order",
            "stamps that are keywords reach the body of a chord",
        },
        outcome({"value": 3}, ["keep", [[[2], [1]], 3]], ["keep", [4], MARK]),
        outcome({"value": 3}, ["keep", [[[1], [2]], 3], MARK], ["keep", [4], MARK]),
        outcome({"value": 3}, ["keep", [[[1], [2]], 3], MARK], ["keep", [4]]),
    ),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_differences_may_meet(name: str) -> None:
    canvas, names, theirs, ours, wrong = TOGETHER[name]
    assert set(explained(canvas, theirs, ours) or ()) == names
    assert explained(canvas, theirs, wrong) is None


@pytest.mark.parametrize(
    ("canvas", "run"),
    [
        (JOINED_BODY, ["note", ["<fail:[1]>", "old"]]),
        (JOINED_BODY, ["keep", [[2], 5]]),
        (GROUP_WITH_LINKS, ["keep", [3]]),
    ],
)
def test_what_celery_loses_is_not_lost_here(canvas: Canvas, run: list[Any]) -> None:
    with_it, without = (
        outcome({"value": 2}, ["keep", [1]], run),
        outcome({"value": 2}, ["keep", [1]]),
    )
    assert explained(canvas, without, with_it) == ["links that Celery loses"]
    assert explained(canvas, with_it, without) is None


BODY_FAILED = ["note", ["<keep:[3]>", "old"]]


def test_error_callbacks_of_the_tasks_it_became_are_called_for_the_task_that_was_replaced() -> None:
    body = several("group", task("fail"), task(tag=3))
    canvas = several("chain", task("become", several("chord", task(), body=body)), task(tag=4))
    theirs = outcome({**ERROR, "parent": PENDING}, FAILED, BODY_FAILED, BODY_FAILED)
    ours = {**ERROR, "parent": ERROR}
    own = "the result of a task replaced by a chord that ends as a group"
    assert own in (explained(canvas, theirs, outcome(ours, FAILED, OWN_FAILED)) or ())
    assert explained(canvas, theirs, outcome(ours, FAILED)) is None
    assert (
        explained(canvas, theirs, outcome(ours, FAILED, ["note", ['<become:["…"]>', "new"]]))
        is None
    )


def test_links_of_the_task_that_was_replaced_are_run_here() -> None:
    canvas = {**BECOME, "links": [task(tag=4)]}
    ran_there, ran_here = ["become", ["…"]], ["keep", [4]]
    theirs = outcome(NO_CLONE, ran_there)
    ours = outcome({"value": [2, 3]}, ran_there, ran_here)
    assert explained(canvas, theirs, ours) == [
        "links of a task replaced by a chord that ends as a group"
    ]
    assert explained(canvas, theirs, outcome({"value": [2, 3]}, ran_here)) is None
    assert explained(BECOME, theirs, ours) is None


def test_error_callbacks_of_others_are_not_among_what_celery_loses() -> None:
    lone = several("chain", several("chain", task(), task(tag=2), errbacks=["old"]))
    canvas = several("group", lone, task(tag=3, errbacks=["old", "fixed"]))

    def found(*runs: list[Any]) -> list[str] | None:
        return explained(canvas, outcome({"group": []}), outcome({"group": []}, *runs))

    assert found(["note", ["<keep:[2]>", "old"]]) == ["links that Celery loses"]
    assert found(["note", ["<keep:[3]>", "old"]]) is None
    assert found(["note", ["fixed"]]) is None


@pytest.mark.parametrize("of", [[task()], [task(), task(tag=2)]])
def test_a_header_waits_for_ever_for_a_task_that_became_a_chord_with_a_group(
    of: list[Canvas],
) -> None:
    become = task("become", several("chord", task(), body=several("group", *of)))
    canvas = several("chord", become, body=task(tag=3))
    theirs = outcome(PENDING, ["become", ["…"]], ["keep", [1]])
    ours = outcome({"value": 3}, ["become", ["…"]], ["keep", [1]], ["keep", [[], 3]])
    assert explained(canvas, theirs, ours) == [
        "a task of a header replaced by a chord whose body is several"
    ]
    assert explained(canvas, theirs, outcome({"value": 3}, ["become", ["…"]])) is None
    assert explained(several("group", become, task(tag=3)), theirs, ours) is None


ELSEWHERE = {
    "a task before the group runs twice": (
        BEHIND_GROUPS,
        outcome({"value": 5}, ["keep", [1]], ["keep", [1]], ["keep", [2, 4]]),
        outcome({"value": 5}, ["keep", [1]], ["keep", [[2, 3], 4]]),
    ),
    "a task behind it has the result of none of the group": (
        BEHIND_GROUPS,
        outcome({"value": 5}, ["keep", [6, 4]]),
        outcome({"value": 5}, ["keep", [[2, 3], 4]]),
    ),
    "a task behind it runs here only": (
        BEHIND_GROUPS,
        outcome({"value": 5}),
        outcome({"value": 5}, ["keep", [[2, 3], 4]]),
    ),
    "one beside what has failed runs there only": (
        FAILED_BEFORE_NOTHING,
        outcome({"value": [[[], [2]], 3]}, FAILED, FAILED, ["keep", [[[], [2]], 3]]),
        outcome(ERROR, FAILED),
    ),
    "what has failed is not the reason": (
        FAILED_BEFORE_NOTHING,
        outcome({"value": [[[], [2]], 3]}, FAILED, ["keep", [[[], [2]], 3]]),
        outcome({"error": "ValueError: ('deliberate', 7)"}, FAILED),
    ),
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_what_is_behind_may_differ_and_nothing_else(name: str) -> None:
    assert explained(*ELSEWHERE[name]) is None


def test_the_arguments_of_a_task_stay_in_order() -> None:
    theirs = outcome({"value": 3}, ["keep", ["p", [1], 3]])
    ours = outcome({"value": 3}, ["keep", [[1], "p", 3]])
    assert explained(GROUPS, theirs, ours) is None
