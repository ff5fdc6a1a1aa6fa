"""What a person sees of a run: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from .results import BAD, CRASHED, FAILED, HUNG, PASSED, SKIPPED, XFAILED, Result

LINE_SECONDS = 20.0
STYLES = {PASSED: "green", SKIPPED: "dim", XFAILED: "dim", FAILED: "red", HUNG: "magenta"}


class Screen:
    """Shows one run. `told` may be called from several threads."""

    def __init__(self, console: Console, title: str) -> None:
        self.console = console
        self._title = title
        self._counts: Counter[str] = Counter()
        self._total = 0
        self._last_line = time.monotonic()
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[counts]}"),
            console=console,
            disable=not console.is_terminal,
            transient=True,
        )
        self._task = self._progress.add_task(title, total=None, counts="")

    @contextlib.contextmanager
    def shown(self) -> Iterator[None]:
        with self._progress:
            yield

    def say(self, text: str) -> None:
        self.console.print(f"[dim]{escape(self._title)}:[/dim] {escape(text)}", highlight=False)

    def begin(self, total: int, done: Counter[str]) -> None:
        """`done` is what an earlier, interrupted run has done of the total."""
        self._total = total
        self._counts = done.copy()
        self._progress.update(self._task, total=total, completed=done.total(), counts=self._said())

    def told(self, test: str, result: Result) -> None:
        self._counts[result.outcome] += 1
        done = self._counts.total()
        self._progress.update(self._task, completed=done, counts=self._said())
        if result.outcome in (HUNG, CRASHED):
            self.say(f"{result.outcome}: {test} ({result.message})")
        if not self.console.is_terminal and time.monotonic() - self._last_line > LINE_SECONDS:
            self._last_line = time.monotonic()
            self.say(f"{done}/{self._total}, {self._counts[PASSED]} passed, {self._bad()} not")

    def _bad(self) -> int:
        return sum(self._counts[each] for each in BAD)

    def _said(self) -> str:
        parts = []
        for outcome, count in sorted(self._counts.items()):
            style = STYLES.get(outcome, "red")
            parts.append(f"[{style}]{count} {outcome}[/{style}]")
        return "  ".join(parts)
