"""Making a failing schedule short: what is not needed to break the same rule is cut."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from .report import Report
from .run import OpenStore
from .run import replay as run_again
from .schedule import Move

__all__ = ["shrink"]

SECONDS = 60.0


def shrink(
    report: Report, transport: str | OpenStore | None = None, *, seconds: float = SECONDS
) -> Report:
    """The report of the shortest schedule found that breaks the same rule first.

    Chunks of moves are cut, then single ones (delta debugging); then what comes between and the
    faults are taken out of those that are left. It ends after ``seconds``, with the best so far.
    Raises ``ValueError`` for a report without a violation.
    """
    if not report.violations:
        raise ValueError("nothing to shrink: the simulation broke no rule")
    shrinker = _Shrinker(report, transport, time.monotonic() + seconds)
    shrinker.cut_end()
    while shrinker.cut() | shrinker.simplify():
        pass
    return shrinker.best


class _Shrinker:
    """Holds the best schedule so far."""

    def __init__(self, report: Report, transport: str | OpenStore | None, deadline: float) -> None:
        self.best = report
        self._rule = report.violations[0].rule
        self._transport = transport
        self._deadline = deadline

    @property
    def _moves(self) -> Sequence[Move]:
        return self.best.schedule.moves

    def cut_end(self) -> None:
        """What came after the violation."""
        self._try(self._moves[: self.best.violations[0].step])

    def cut(self) -> bool:
        """Cut chunks, half of all moves first; whether anything could go."""
        return self._by_chunks(lambda moves: [])

    def simplify(self) -> bool:
        """Make moves plain, half of them first; whether any could be."""
        return self._by_chunks(lambda moves: [replace(move, plain=True) for move in moves])

    def _by_chunks(self, change: Callable[[Sequence[Move]], Sequence[Move]]) -> bool:
        changed, size = False, max(1, len(self._moves) // 2)
        while True:
            start = 0
            while start < len(self._moves) and time.monotonic() < self._deadline:
                before = self._moves
                chunk = before[start : start + size]
                kept = list(change(chunk))
                candidate = [*before[:start], *kept, *before[start + size :]]
                if kept != list(chunk) and self._try(candidate):
                    changed = True
                    start += len(kept)
                else:
                    start += size
            if size == 1 or time.monotonic() >= self._deadline:
                return changed and time.monotonic() < self._deadline
            size = size // 2

    def _try(self, moves: Sequence[Move]) -> bool:
        schedule = replace(self.best.schedule, moves=list(moves))
        report = run_again(schedule, self._transport)
        if not report.violations or report.violations[0].rule != self._rule:
            return False
        self.best = report
        return True
