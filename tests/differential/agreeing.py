"""Whether two outcomes agree, with leeways: in what they may differ.

A leeway says what it lets pass in one place: a node of results, a text, a run. The rest of that
place is compared again with all leeways, so that any of them may meet in one canvas.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from .canvases import Canvas
from .observed import Outcome
from .reading import within

Found = TypeVar("Found")
Run = list[Any]
"""The name of a task, its arguments, and what else there is to tell of it (`observed`)."""


@dataclass(frozen=True)
class Leeway:
    """The first of two is always Celery's, the second ours.

    ``outcome``: all of two outcomes. ``node``: two of the lists and dicts in results and arguments.
    ``got``: what ``get()`` gave. ``text``: gives the text of an error without what may differ.
    ``more``, ``fewer``: a run that only we have, or only Celery. ``kwargs``, ``stamps``: those of a
    run. ``order``: lists of results may be in another order.
    """

    outcome: Callable[[Agreement], bool] | None = None
    node: Callable[[Agreement, Any, Any], bool] | None = None
    got: Callable[[Agreement, Any, Any], bool] | None = None
    text: Callable[[str], str] | None = None
    more: Callable[[Agreement, Run], bool] | None = None
    fewer: Callable[[Agreement, Run], bool] | None = None
    kwargs: Callable[[Agreement, Any, Any], bool] | None = None
    stamps: Callable[[Agreement, Any, Any], bool] | None = None
    order: bool = False


class Agreement:
    """Of what the two sides made of a canvas."""

    def __init__(
        self, canvas: Canvas, theirs: Outcome, ours: Outcome, leeways: Sequence[Leeway]
    ) -> None:
        self.canvas, self.theirs, self.ours = canvas, theirs, ours
        self._leeways = leeways
        self._order = any(each.order for each in leeways)
        self._known: dict[tuple[int, int], tuple[bool, Any, Any]] = {}
        self._read: dict[Callable[[Canvas], Any], Any] = {}

    def about(self, reading: Callable[[Canvas], Found]) -> Found:
        """What a function says of the canvas, which it is asked once."""
        if reading not in self._read:
            self._read[reading] = reading(self.canvas)
        found: Found = self._read[reading]
        return found

    def holds(self) -> bool:
        if self.theirs == self.ours:
            return True
        if any(each.outcome(self) for each in self._leeways if each.outcome):
            return True
        if self.theirs.keys() != self.ours.keys() or "error" in self.ours:
            return False
        return (
            self.same(self.theirs.get("result"), self.ours.get("result"))
            and self._got(self.theirs.get("get"), self.ours.get("get"))
            and self.runs()
        )

    def _got(self, theirs: Any, ours: Any) -> bool:
        return self.same(theirs, ours) or any(
            each.got(self, theirs, ours) for each in self._leeways if each.got
        )

    # -- results and values ----------------------------------------------------------------------

    def same(self, theirs: Any, ours: Any) -> bool:
        if theirs == ours:
            return True
        pair = (id(theirs), id(ours))
        if pair not in self._known:  # which keeps both, so that nothing else gets their ids
            self._known[pair] = self._alike(theirs, ours), theirs, ours
        return self._known[pair][0]

    def _alike(self, theirs: Any, ours: Any) -> bool:
        if self._let_pass(theirs, ours):
            return True
        if isinstance(theirs, dict) and isinstance(ours, dict):
            return theirs.keys() == ours.keys() and all(
                self._texts(value, ours[key]) if key == "error" else self.same(value, ours[key])
                for key, value in theirs.items()
            )
        if not isinstance(theirs, list) or not isinstance(ours, list):
            return False
        return self.in_turn(theirs, ours) or (self._order and self._in_some_order(theirs, ours))

    def _let_pass(self, theirs: Any, ours: Any) -> bool:
        return any(each.node(self, theirs, ours) for each in self._leeways if each.node)

    def in_turn(self, theirs: Sequence[Any], ours: Sequence[Any]) -> bool:
        return len(theirs) == len(ours) and all(
            itertools.starmap(self.same, zip(theirs, ours, strict=True))
        )

    def _in_some_order(self, theirs: list[Any], ours: list[Any]) -> bool:
        if len(theirs) != len(ours) or (theirs[-1] == ours[-1] and self._is_of_keep(ours)):
            return False
        return len(paired(theirs, ours, self.same)) == len(theirs)

    def _is_of_keep(self, value: list[Any]) -> bool:
        """Whether it may be the arguments of a task, whose own comes last, and not results: those
        are numbers of tasks that give their own argument."""
        if not isinstance(value[-1], int) or all(isinstance(each, int) for each in value):
            return False
        found = [each["tag"] for each in within(self.canvas) if each["of"] in ("tag", "join")]
        return value[-1] not in found

    def _texts(self, theirs: str, ours: str) -> bool:
        for each in self._leeways:
            if each.text:
                theirs, ours = each.text(theirs), each.text(ours)
        return theirs == ours

    # -- what ran --------------------------------------------------------------------------------

    def runs(self, *, more: bool = False) -> bool:
        """Whether the same ran; with ``more``, anything else may have run here as well."""
        theirs = list(self.theirs.get("ran", ()))
        ours = []
        for line in self.ours.get("ran", ()):
            if line in theirs:
                theirs.remove(line)
            else:
                ours.append(json.loads(line))
        missing = [json.loads(line) for line in theirs]
        found = paired(sorted(missing, key=self._may_miss), ours, self._same_run)
        left = [run for run in missing if not any(run is one for one, _ in found)]
        beyond = [run for run in ours if not any(run is one for _, one in found)]
        return all(map(self._may_miss, left)) and (more or all(map(self._may_have, beyond)))

    def _may_miss(self, run: Run) -> bool:
        return any(each.fewer(self, run) for each in self._leeways if each.fewer)

    def _may_have(self, run: Run) -> bool:
        return any(each.more(self, run) for each in self._leeways if each.more)

    def _same_run(self, theirs: Run, ours: Run) -> bool:
        name, arguments, *more = theirs
        if name != ours[0]:
            return False
        a, b = _merged(more), _merged(ours[2:])
        if a.get("retries") != b.get("retries"):
            return False
        for key in ("kwargs", "stamps"):
            leeways = [getattr(each, key) for each in self._leeways]
            if a.get(key) != b.get(key) and not any(
                each(self, a.get(key) or {}, b.get(key) or {}) for each in leeways if each
            ):
                return False
        if name == "told":  # the id, the error, its own
            same = self._texts(arguments[1], ours[1][1])
            return same and self.in_turn([arguments[0], *arguments[2:]], [ours[1][0], *ours[1][2:]])
        return self.in_turn(arguments, ours[1]) or self._let_pass(arguments, ours[1])


def _merged(more: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for each in more for name, value in each.items()}


def paired(
    theirs: Sequence[Any], ours: Sequence[Any], same: Callable[[Any, Any], bool]
) -> list[tuple[Any, Any]]:
    """As many pairs of those that are the ``same`` as there can be; the first of theirs first."""
    taken: dict[int, int] = {}

    def find(number: int, tried: set[int]) -> bool:
        for other, one in enumerate(ours):
            if other not in tried and same(theirs[number], one):
                tried.add(other)
                if other not in taken or find(taken[other], tried):
                    taken[other] = number
                    return True
        return False

    for number in range(len(theirs)):
        find(number, set())
    return [(theirs[number], ours[other]) for other, number in taken.items()]
