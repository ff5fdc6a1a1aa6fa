"""What is meant to differ (docs/celery/differences.md), as narrow as it can be said.

A difference says to which canvases it applies (`reading`), and what it lets pass then: everything
else still has to be the same (`agreeing`). Each module has those of one theme: first what is read
in a canvas, then what is let pass, Celery's side first, then the table.
"""

from __future__ import annotations

from tests.differential.agreeing import Agreement
from tests.differential.canvases import Canvas
from tests.differential.observed import Outcome

from . import counted, failing, given, groups, ignored, joining, links, nothing, replaced, stamps
from .difference import Difference

__all__ = ("DIFFERENCES", "Difference", "explained")

THEMES = (given, counted, nothing, joining, ignored, failing, groups, replaced, stamps, links)
DIFFERENCES = [each for theme in THEMES for each in theme.DIFFERENCES]
"""Where two of them explain the same, the first is told of."""


def explained(canvas: Canvas, theirs: Outcome, ours: Outcome) -> list[str] | None:
    """The names of the differences that are meant to be; ``None`` if there is another one."""
    if theirs == ours:
        return []
    needed = [each for each in DIFFERENCES if each.applies(canvas)]
    if not _agree(canvas, theirs, ours, needed):
        return None
    for difference in tuple(reversed(needed)):
        fewer = [each for each in needed if each is not difference]
        if _agree(canvas, theirs, ours, fewer):
            needed = fewer
    return [each.name for each in needed]


def _agree(canvas: Canvas, theirs: Outcome, ours: Outcome, differences: list[Difference]) -> bool:
    leeways = [each.leeway for each in differences]
    return Agreement(canvas, theirs, ours, leeways).holds()
