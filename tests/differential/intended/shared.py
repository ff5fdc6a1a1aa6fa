"""What several themes read in canvases, and let pass."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any

from tests.differential.agreeing import Agreement, Leeway, Run
from tests.differential.canvases import CHUNK, Canvas
from tests.differential.reading import (
    FAILING,
    becomes_nothing,
    is_nothing,
    members,
    runs_of,
    within,
)

EMPTY_CHAIN = re.compile(
    r"""(ImproperlyConfigured: |ImproperlyConfigured\(\\?['"])"""
    r"""Cannot replace with an empty chain(\\?['"]\))?"""
)
EMPTY = "IndexError: list index out of range"
NOT_A_SIGNATURE = "AttributeError: 'dict' object has no attribute 'clone'"
CALLBACKS = ("note", "told")
SAID = {"fail": "deliberate", "trouble": "deep", "stubborn": "stubborn", "refuse": "deliberate"}


def counts(group: Canvas) -> int:
    """How many tasks, or canvases with tasks, a group has."""
    if group["is"] == "chunks":
        return math.ceil(len(group["items"]) / CHUNK)
    return sum(not is_nothing(each) for each in members(group))


def _never_ends(both: Agreement) -> bool:
    """Celery never ends (or leaves out what is before a group of nothing): what it did, was done
    here too."""
    stuck = both.theirs.get("get") in ("not ready", {"value": []})
    return stuck and both.ours.get("get", "not ready") != "not ready" and both.runs(more=True)


def ends(both: Agreement) -> bool:
    """Whether it ends here: nothing is left to wait for but a task that is ignored."""
    if "error" in both.ours:
        return False
    ran = [json.loads(line)[0] for line in both.ours["ran"]]
    return both.ours["get"] != "not ready" or "skip" in ran


def without(node: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in node.items() if name not in names}


def is_pending(node: Any) -> bool:
    return isinstance(node, dict) and node.get("state") == "PENDING"


def rest_is_same(both: Agreement, theirs: Any, ours: Any, name: str) -> bool:
    return both.same(without(theirs, "state"), without(ours, name))


def has_failed(both: Agreement, node: Any) -> bool:
    """With the error of a task that did."""
    error = node.get("error") if isinstance(node, dict) else None
    if not isinstance(error, str):
        return False
    if EMPTY_CHAIN.search(error):
        return any(map(becomes_nothing, within(both.canvas)))
    return any(
        repr((SAID[name], arguments[-1])) in error.replace("\\", "")
        for name, arguments, *_ in map(json.loads, both.ours["ran"])
        if name in FAILING
    )


def went_on(both: Agreement, theirs: Any, ours: Any) -> bool:
    """Celery has gone on where a task cannot run here, since something has failed."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict) or "value" not in theirs:
        return False
    return has_failed(both, ours) and both.same(without(theirs, "value"), without(ours, "error"))


def told(run: Run) -> tuple[str, str]:
    """What tells it from others, as in `runs_of`."""
    return run[0], json.dumps(run[1][-1:], ensure_ascii=False)


def _ran_here(both: Agreement, theirs: Any, ours: Any) -> bool:
    """A task that Celery does not start has run here."""
    if not is_pending(theirs) or not isinstance(ours, dict) or not {"value", "error"} & {*ours}:
        return False
    return both.same(without(theirs, "state"), without(ours, "value", "error"))


def never_started(behind: Callable[[Canvas], list[Canvas]]) -> Leeway:
    """Celery never starts some part of a canvas; here each task of it runs, and its callbacks."""

    def runs(canvas: Canvas) -> set[tuple[str, str]]:
        return runs_of(behind(canvas))

    def is_of_it(both: Agreement, run: Run) -> bool:
        found = both.about(runs)
        if run[0] not in CALLBACKS:
            return told(run) in found and _is_one(both, run)
        names = {"fixed", "<id>", *(f"<{name}:{own}>" for name, own in found)}
        return run[1][0].replace("\\u2026", "…") in names

    return Leeway(
        node=_ran_here,
        got=lambda both, theirs, ours: theirs == "not ready",
        more=is_of_it,
    )


def _is_one(both: Agreement, run: Run) -> bool:
    """Whether a task ran once; one that runs on items may have equal ones."""
    ran: list[str] = both.ours["ran"]
    items = any(run[1][-1:] == each[-1:] for each in both.about(_items))
    return items or not run[1] or ran.count(json.dumps(run)) < 2


def _items(canvas: Canvas) -> list[Any]:
    return [
        item if isinstance(item, list) else [item]
        for each in within(canvas)
        for item in each.get("items", ())
    ]


never_ends = Leeway(outcome=_never_ends)
order = Leeway(order=True)
